// The one rule by which medians of steps and 95th percentiles are taken.

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe::analysis {

/// The percentile by the nearest rank: the smallest of the values that at least `percent` % of all do not exceed; 0 if
/// there are none. `values` lacks `zeros` values that are 0, and all others are 0 or more. Changes their order.
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
