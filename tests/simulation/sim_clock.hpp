// Simulated time and chance. While a `sim_clock` lives, it alone determines std::chrono::steady_clock and
// std::random_device in this program: the linker replaces them by those of sim_clock.cpp (--wrap, see CMakeLists.txt).

#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::simulation {

using sim_time = std::chrono::steady_clock::time_point;
using sim_duration = std::chrono::nanoseconds;

/// One at a time, on one thread. Other threads may read the time.
class sim_clock {
 public:
  /// Starts at one hour.
  explicit sim_clock(std::uint64_t seed);
  ~sim_clock();
  sim_clock(const sim_clock&) = delete;
  sim_clock& operator=(const sim_clock&) = delete;

  sim_time now() const;
  /// Requires: `when` is not before the present time.
  void advance_to(sim_time when);
};

}  // namespace troupe::simulation
