// Prefetching of table rows that random indices will ask for soon.

#pragma once

#include <algorithm>
#include <cstddef>

namespace troupe::kernels {

inline constexpr std::size_t cache_line_bytes = 64;

/// How far to run ahead for rows of `row_bytes`, and how much of each row to ask for. Past a few lines the
/// processor's own prefetcher has recognised the row, and more requests than the core can keep open only stall it.
struct prefetch_plan {
  std::size_t rows_ahead;
  std::size_t bytes;

  explicit prefetch_plan(std::size_t row_bytes) {
    constexpr std::size_t max_lines_per_row = 8;
    constexpr std::size_t lines_in_flight = 48;
    bytes = std::min(row_bytes, max_lines_per_row * cache_line_bytes);
    // A row that does not start on a line spans one more line than its size says.
    const std::size_t lines = bytes / cache_line_bytes + 1;
    rows_ahead = std::clamp<std::size_t>(lines_in_flight / lines, 4, 24);
  }
};

inline void prefetch_row(const void* row, std::size_t bytes) {
  const char* const begin = static_cast<const char*>(row);
  for (std::size_t at = 0; at < bytes; at += cache_line_bytes) __builtin_prefetch(begin + at);
}

}  // namespace troupe::kernels
