// Detects that this process was stopped for a while, for example by a signal: peers then take its silence for death,
// and error texts must not blame the peers.

#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>

namespace troupe::nodes {

/// Records the last stop. Thread: any.
class own_stops {
 public:
  using clock = std::chrono::steady_clock;

  /// Peers take a silence of `dead_after` for death, and may do so somewhat earlier.
  explicit own_stops(std::chrono::milliseconds dead_after) : dead_after_(dead_after) {}

  /// The interval at which to call `look`.
  std::chrono::milliseconds interval() const { return dead_after_ / 20; }
  void look();

  /// Returns how long this process was stopped, if the pause may just have cost it members.
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
