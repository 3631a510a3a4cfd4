// The steps of a recorded run, as windows of time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// The time from one commit to the next.
struct step_window {
  struct commit {
    std::uint16_t actor = 0;
    trace::nanoseconds when = 0;
  };

  std::uint64_t step = 0;
  trace::nanoseconds begin = 0;
  trace::nanoseconds end = 0;
  /// When each server had applied the step and each trainer had finished it. The last of these commits the step.
  std::vector<commit> commits;

  trace::nanoseconds duration() const { return end - begin; }
};

struct step_windows {
  /// True: all actors commit each step together, as in a synchronous run; a window is the time from the commit of the
  /// previous step to the step's own. False: trainers do not wait for each other; a window is the time between the ends
  /// of two consecutive steps of one trainer.
  bool common = true;
  std::vector<step_window> whole;  ///< by end
  /// The number of steps that are recorded only in part.
  std::uint64_t incomplete = 0;
};

/// Finds the steps from the records of trainers' steps and servers' applies. A run counts as synchronous unless rows
/// that lacked a step were served, or a server applied a step in parts.
step_windows find_steps(const trace::recording& run);

/// The percentile of the times of all whole steps; 0 without any.
trace::nanoseconds step_time(const step_windows& all, std::size_t percent);

/// The whole windows of a step: one, or without common commits one per trainer. Errors: no such step; it says which
/// exist.
result<std::vector<const step_window*>> find_step(const step_windows& all, std::uint64_t step);

/// The percentile by nearest rank, as in all analyses: the smallest value that at least `percent` % of all values do
/// not exceed; 0 without any. Counts `zeros` zeros besides `values`, which are 0 or more. Reorders `values`.
template <class T>
T percentile(std::vector<T>& values, std::size_t percent, std::size_t zeros = 0) {
  const std::size_t count = values.size() + zeros;
  const std::size_t rank = (count * percent + 99) / 100;  // from 1
  if (rank <= zeros) return T{};
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank - zeros - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace troupe::analysis
