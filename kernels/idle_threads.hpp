// Parallel work: its parts are run by the thread that needs it and by idle threads.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>

namespace troupe::kernels {

/// Threads that may be idle, such as the workers of an actor system. Thread: any.
class idle_threads {
 public:
  virtual ~idle_threads() = default;
  /// Returns how many may be idle while another one works.
  virtual std::size_t count() const = 0;
  /// Makes one thread call `help` once it is idle; maybe none ever does.
  virtual void offer(std::function<void()> help) = 0;
};

/// During this object's lifetime, `in_parts` offers work to `threads`; of several, to the latest ones.
class idle_threads_in_use {
 public:
  explicit idle_threads_in_use(std::shared_ptr<idle_threads> threads);
  ~idle_threads_in_use();
  idle_threads_in_use(const idle_threads_in_use&) = delete;
  idle_threads_in_use& operator=(const idle_threads_in_use&) = delete;

 private:
  std::shared_ptr<idle_threads> threads_;
};

/// Makes an idle thread call `what`; maybe none ever does.
void offer_to_idle(std::function<void()> what);

/// Calls `part(i)` once for each i below `count`: this thread runs the first ones, idle threads the last ones. Returns
/// when all are done. Calls `done(i)` on this thread, in order, when parts 0 to i are done. Requires: parts write to
/// disjoint memory. If a part or `done` throws, throws the first of these exceptions, once no part is running. Thread:
/// any.
void in_parts(std::size_t count, const std::function<void(std::size_t)>& part,
              const std::function<void(std::size_t)>& done = {});

/// Calls `range(begin, end)` for parts of [0, count), in parallel, each large enough to pay for a thread: `bytes` is
/// the number of bytes that all calls read and write.
template <class F>
void in_ranges(std::size_t count, std::size_t bytes, const F& range) {
  constexpr std::size_t worth_a_part = std::size_t{1} << 20;  // takes some 100 us
  constexpr std::size_t parts_max = 64;
  const std::size_t parts = std::min({bytes / worth_a_part, parts_max, count});
  if (parts <= 1) return range(std::size_t{0}, count);
  const auto begin_of = [&](std::size_t part) { return count / parts * part + std::min(part, count % parts); };
  in_parts(parts, [&](std::size_t part) { range(begin_of(part), begin_of(part + 1)); });
}

}  // namespace troupe::kernels
