#include "cluster/nodes/own_stops.hpp"

#include <algorithm>

namespace troupe::nodes {

std::chrono::milliseconds own_stops::gap_at(clock::time_point now) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - last_look_.load());
}

/// Peers wait four fifths of `dead_after`, and the last sign of life may be a fifth older than the stop.
std::chrono::milliseconds own_stops::least() const { return dead_after_ * 3 / 5; }

void own_stops::look() {
  const auto now = clock::now();
  if (const auto gap = gap_at(now); gap > least()) {
    stopped_for_.store(gap);
    woke_at_.store(now);
  }
  last_look_.store(now);
}

std::optional<std::chrono::milliseconds> own_stops::lately() const {
  const auto now = clock::now();
  if (const auto gap = gap_at(now); gap > least()) return gap;
  const auto woke = woke_at_.load();
  if (woke == clock::time_point() || now - woke > dead_after_) return std::nullopt;
  return stopped_for_.load();
}

void look_regularly(boost::asio::steady_timer& timer, const std::shared_ptr<own_stops>& stops) {
  stops->look();
  timer.expires_after(std::max(stops->interval(), std::chrono::milliseconds(1)));
  timer.async_wait([&timer, stops](const boost::system::error_code& cancelled) {
    if (!cancelled) look_regularly(timer, stops);
  });
}

}  // namespace troupe::nodes
