// Deadlines that are "for ever".

#pragma once

#include <algorithm>
#include <chrono>

namespace troupe::runtime {

/// Returns a wish within what clocks can add to their time: ten years at most.
inline std::chrono::milliseconds bounded(std::chrono::milliseconds wish) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365 * 10);
  return std::min(wish, longest);
}

}  // namespace troupe::runtime
