// Simulated time and chance. While a `sim_clock` lives, std::chrono::steady_clock and std::random_device of this
// program are functions of it alone: the linker puts those of sim_clock.cpp in their place (--wrap, see
// CMakeLists.txt).

#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::simulation {

using sim_time = std::chrono::steady_clock::time_point;
using sim_duration = std::chrono::nanoseconds;

/// One at a time, of one thread. Other threads may read the time.
class sim_clock {
 public:
  /// Begins at one hour.
  explicit sim_clock(std::uint64_t seed);
  ~sim_clock();
  sim_clock(const sim_clock&) = delete;
  sim_clock& operator=(const sim_clock&) = delete;

  sim_time now() const;
  /// Requires: not before the present time.
  void advance_to(sim_time when);
};

}  // namespace troupe::simulation
