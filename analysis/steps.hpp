// The steps of a recorded run, as stretches of time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace.hpp"
#include "base/result.hpp"

namespace troupe::analysis {

/// From one commit to the next.
struct step_window {
  struct commit {
    std::uint16_t actor = 0;
    trace::nanoseconds when = 0;
  };

  std::uint64_t step = 0;
  trace::nanoseconds begin = 0;
  trace::nanoseconds end = 0;
  /// What the step consisted of: when each server had applied it and each trainer had done it. The last is its commit.
  std::vector<commit> commits;

  trace::nanoseconds duration() const { return end - begin; }
};

struct step_windows {
  /// True: all actors commit a step together, which needs a synchronous run; a window is the time from the commit of
  /// the step before to the step's own. False: trainers go on without each other, and a window is the time from a
  /// trainer's last step's end to its step's end.
  bool common = true;
  std::vector<step_window> whole;  ///< by end
  /// Steps of which something is recorded, but not all from their beginning to their end.
  std::uint64_t incomplete = 0;
};

/// Finds them by the records of trainers' steps and of servers' applies. A run counts as synchronous unless rows were
/// served that lacked a step, or a server applied a step in parts.
step_windows find_steps(const trace::recording& run);

/// How long `percent` % of the whole steps take at most; 0 if there are none.
trace::nanoseconds step_time(const step_windows& all, std::size_t percent);

/// Whole windows of one step (one, or in runs without a common commit one a trainer); an error names those there are.
result<std::vector<const step_window*>> find_step(const step_windows& all, std::uint64_t step);

/// The percentile by nearest rank, as all analyses take it: the smallest value that at least `percent` % of all values
/// do not exceed; 0 if there are none. Counts `zeros` zeros besides `values`, which are 0 or more. Reorders `values`.
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
