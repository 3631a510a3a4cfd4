// Notices that this process was stopped for a while, as by a signal: others take its silence for its death, and what
// they do then must not be told as theirs.

#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>

namespace troupe::nodes {

/// What is known of the last stop. Thread: any.
class own_stops {
 public:
  using clock = std::chrono::steady_clock;

  /// Others take a silence of `dead_after` for a death, and may do so somewhat earlier.
  explicit own_stops(std::chrono::milliseconds dead_after) : dead_after_(dead_after) {}

  /// How often `look` is to be called.
  std::chrono::milliseconds interval() const { return dead_after_ / 20; }
  void look();

  /// Returns for how long this process was stopped, if that may have cost it members just now.
  std::optional<std::chrono::milliseconds> lately() const;

 private:
  std::chrono::milliseconds least() const;
  std::chrono::milliseconds gap_at(clock::time_point now) const;

  const std::chrono::milliseconds dead_after_;
  std::atomic<clock::time_point> last_look_ = clock::now();
  std::atomic<clock::time_point> woke_at_ = clock::time_point();
  std::atomic<std::chrono::milliseconds> stopped_for_{};
};

/// Calls `look` on the timer's thread until the timer is destroyed.
void look_regularly(boost::asio::steady_timer& timer, const std::shared_ptr<own_stops>& stops);

}  // namespace troupe::nodes
