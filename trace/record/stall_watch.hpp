// Detects when this process did not run for a while: stopped by a signal or a debugger, frozen with its container, or
// without a core. Otherwise its late work would look like a slow wire.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "trace/record/recorder.hpp"

namespace troupe::trace {

/// The watching thread sleeps this long between two looks at its clocks.
constexpr std::chrono::milliseconds stall_look_interval{20};
/// A thread that wakes up later than this after its sleep was kept from running.
constexpr std::chrono::milliseconds stall_least{20};

/// What a thread reads when it wakes up.
struct wake_up {
  std::uint64_t ticks = 0;
  std::uint64_t computed_ns = 0;  ///< by all threads of the process so far
};

/// A time in which the process did not run, in ticks.
struct stall {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const stall&) const = default;
};

/// Finds the stall between the last two of three wake-ups of a thread that sleeps for `stall_look_interval`. It begins
/// when the thread should have woken up, so up to an interval is left out. None if the thread woke up in time, or if
/// threads of the process computed for more than half of the delay beyond their share in the previous interval: then
/// only that thread was delayed.
std::optional<stall> find_stall(const wake_up& before, const wake_up& last, const wake_up& now,
                                double ticks_per_second);

/// Records stalls of this process (kind stalled) while it lives, on a thread of its own that wakes up 50 times a
/// second.
class stall_watch {
 public:
  /// If no thread can be created, nothing is watched. Requires: `to` outlives the watch, which ends before `to.finish`.
  explicit stall_watch(recorder& to);
  ~stall_watch();
  stall_watch(const stall_watch&) = delete;
  stall_watch& operator=(const stall_watch&) = delete;

 private:
  void follow(recorder& to);

  std::mutex mutex_;
  std::condition_variable end_;  // with std::condition_variable_any a look takes twice as long
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace troupe::trace
