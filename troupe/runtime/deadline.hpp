// Bounds "for ever" deadlines.

#pragma once

#include <algorithm>
#include <chrono>

namespace troupe::runtime {

/// Clamps a timeout to ten years: clocks can add that to their time.
inline std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365 * 10);
  return std::min(timeout, longest);
}

}  // namespace troupe::runtime
