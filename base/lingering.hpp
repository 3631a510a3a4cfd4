// How long an idle thread polls for work before it sleeps.

#pragma once

#include <chrono>
#include <thread>

namespace troupe {

/// Waking a sleeping core takes some 40 us, and more if a virtual core has to be given back first. So a thread polls
/// for about that long. It yields the core to others meanwhile; if another thread keeps the core for long, it polls
/// only once for a while. Thread: one.
class lingering {
 public:
  explicit lingering(std::chrono::microseconds time) : time_(time) {}

  /// Calls `poll` until it returns true, which means that it has found work; returns false after the time.
  template <class Poll>
  bool look(Poll poll) {
    constexpr std::chrono::microseconds taken_for_long{300};
    constexpr std::chrono::milliseconds pause{100};
    if (time_.count() == 0) return false;
    if (poll()) return true;
    const auto since = clock::now();
    if (since < sleeps_until_) return false;
    for (auto before = since; before - since <= time_; before = clock::now()) {
      std::this_thread::yield();
      if (const auto now = clock::now(); now - before > taken_for_long) {
        sleeps_until_ = now + pause;
        return false;
      }
      if (poll()) return true;
    }
    return false;
  }

 private:
  using clock = std::chrono::steady_clock;

  std::chrono::microseconds time_;
  clock::time_point sleeps_until_;  ///< polls only once until then
};

}  // namespace troupe
