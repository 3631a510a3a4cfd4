#include "kernels/idle_threads.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::kernels {

namespace {

std::mutex& users_mutex() {
  static std::mutex one;
  return one;
}

// Guarded by `users_mutex`; the latest last.
std::vector<std::shared_ptr<idle_threads>>& users() {
  static auto* const all = new std::vector<std::shared_ptr<idle_threads>>;  // used until the process ends
  return *all;
}

std::shared_ptr<idle_threads> threads_now() {
  const std::lock_guard lock(users_mutex());
  return users().empty() ? nullptr : users().back();
}

// May outlive `in_parts`: a thread that comes when nothing is left still holds it.
class shared_work {
 public:
  shared_work(std::size_t count, const std::function<void(std::size_t)>& part)
      : part_(&part), left_(count), over_(count) {}

  // Claims and runs the last unclaimed part, until all are claimed.
  void help() {
    while (const auto taken = take(false)) run(*taken);
  }

  void run_all(const std::function<void(std::size_t)>& done) {
    for (std::size_t next = 0; next < over_.size(); ++next) {
      if (const auto mine = take(true)) run(*mine);  // else another thread has claimed it
      over_[next].wait(0, std::memory_order_acquire);
      if (done && !failed_.load(std::memory_order_acquire)) attempt([&] { done(next); });
    }
    // Moved out here, so that the last helper that holds this does not destroy it.
    if (auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(std::move(failure));
  }

 private:
  // Unclaimed parts are [first, last).
  struct range {
    std::uint32_t first;
    std::uint32_t last;
  };
  static constexpr int half = 32;
  static std::uint64_t packed(range of) { return std::uint64_t{of.first} << half | of.last; }
  static range unpacked(std::uint64_t of) {
    return {static_cast<std::uint32_t>(of >> half), static_cast<std::uint32_t>(of)};
  }

  std::optional<std::size_t> take(bool first) {
    std::uint64_t now = left_.load(std::memory_order_relaxed);
    for (;;) {
      range open = unpacked(now);
      if (open.first == open.last) return std::nullopt;
      const std::size_t taken = first ? open.first++ : --open.last;
      if (left_.compare_exchange_weak(now, packed(open), std::memory_order_relaxed)) return taken;
    }
  }

  void run(std::size_t number) {
    attempt([&] { (*part_)(number); });
    over_[number].store(1, std::memory_order_release);
    over_[number].notify_one();
  }

  // Keeps the first exception.
  template <class F>
  void attempt(F what) {
    try {
      what();
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
    }
  }

  const std::function<void(std::size_t)>* part_;
  std::atomic<std::uint64_t> left_;
  std::vector<std::atomic<int>> over_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
};

}  // namespace

idle_threads_in_use::idle_threads_in_use(std::shared_ptr<idle_threads> threads) : threads_(std::move(threads)) {
  const std::lock_guard lock(users_mutex());
  users().push_back(threads_);
}

idle_threads_in_use::~idle_threads_in_use() {
  const std::lock_guard lock(users_mutex());
  const auto latest = std::ranges::find(users().rbegin(), users().rend(), threads_);
  users().erase(std::prev(latest.base()));
}

void offer_to_idle(std::function<void()> what) {
  if (const auto threads = threads_now()) threads->offer(std::move(what));
}

void in_parts(std::size_t count, const std::function<void(std::size_t)>& part,
              const std::function<void(std::size_t)>& done) {
  const auto threads = count > 1 ? threads_now() : nullptr;
  if (threads == nullptr || threads->count() == 0) {
    for (std::size_t i = 0; i < count; ++i) {
      part(i);
      if (done) done(i);
    }
    return;
  }
  const auto work = std::make_shared<shared_work>(count, part);
  try {
    for (std::size_t i = std::min(count - 1, threads->count()); i > 0; --i) threads->offer([work] { work->help(); });
  } catch (const std::bad_alloc&) {  // then fewer threads help
  }
  work->run_all(done);
}

}  // namespace troupe::kernels
