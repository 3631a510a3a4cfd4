// The clock of one host, from the samples in its processes' files: ticks to nanoseconds.

#pragma once

#include <cstdint>
#include <vector>

#include "trace/record/clock.hpp"

namespace troupe::trace {

class tick_clock {
 public:
  /// `samples`: of all processes of one boot, in any order. `ticks_per_second` is used if there are too few of them.
  tick_clock(std::vector<clock_sample> samples, double ticks_per_second);

  /// CLOCK_MONOTONIC of the host at that tick. Never runs backwards.
  std::int64_t monotonic_ns(std::uint64_t ticks) const;
  /// CLOCK_REALTIME minus CLOCK_MONOTONIC in the first sample.
  std::int64_t realtime_offset_ns() const { return realtime_offset_ns_; }

 private:
  struct knot {
    std::uint64_t ticks;
    std::int64_t ns;
  };

  std::vector<knot> knots_;  ///< ascending in both
  double ns_per_tick_ = 1;
  std::int64_t realtime_offset_ns_ = 0;
};

}  // namespace troupe::trace
