// A number rounded to 16 bits, by the definition of the formats and in double, independent of the kernels.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/embedding_bag.hpp"

namespace troupe::actors {

/// Returns the number of `type` nearest to x, ties to even; Inf above the largest.
inline float rounded(float x, kernels::row_dtype type) {
  if (type == kernels::row_dtype::f32 || x == 0 || !std::isfinite(x)) return x;
  const bool is_half = type == kernels::row_dtype::f16;
  const int fraction_bits = is_half ? 10 : 7;
  const int smallest_exponent = is_half ? -14 : -126;
  const int largest_exponent = is_half ? 15 : 127;
  const int exponent = std::max(std::ilogb(x), smallest_exponent);
  const double nearest = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(x), fraction_bits - exponent)),
                                    exponent - fraction_bits);
  if (std::abs(nearest) < std::ldexp(1.0, largest_exponent + 1)) return static_cast<float>(nearest);
  return std::copysign(std::numeric_limits<float>::infinity(), x);
}

inline std::vector<float> rounded(std::vector<float> numbers, kernels::row_dtype type) {
  for (float& number : numbers) number = rounded(number, type);
  return numbers;
}

}  // namespace troupe::actors
