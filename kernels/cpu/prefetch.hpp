// Prefetching of table rows before random indices read them.

#pragma once

#include <algorithm>
#include <cstddef>

namespace troupe::kernels {

inline constexpr std::size_t cache_line_bytes = 64;

/// How many rows ahead to prefetch rows of `row_bytes`, and how many bytes of each. After a few lines the hardware
/// prefetcher has recognized the row, and more requests than the core can have open only stall it.
struct prefetch_plan {
  std::size_t rows_ahead;
  std::size_t bytes;

  explicit prefetch_plan(std::size_t row_bytes) {
    constexpr std::size_t max_lines_per_row = 8;
    constexpr std::size_t lines_in_flight = 48;
    bytes = std::min(row_bytes, max_lines_per_row * cache_line_bytes);
    // A row that does not start on a line covers one line more than its size suggests.
    const std::size_t lines = bytes / cache_line_bytes + 1;
    rows_ahead = std::clamp<std::size_t>(lines_in_flight / lines, 4, 24);
  }
};

inline void prefetch_row(const void* row, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(row);
  for (std::size_t at = 0; at < bytes; at += cache_line_bytes) __builtin_prefetch(begin + at);
}

}  // namespace troupe::kernels
