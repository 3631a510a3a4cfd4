// Rounds numbers to fewer bits, as products round their factors.

#pragma once

#include <bit>
#include <cstdint>

namespace troupe::emulated_cuda {

/// Mantissa bits of tf32 and bf16.
inline constexpr int tf32_bits = 10;
inline constexpr int bf16_bits = 7;

/// Keeps `kept` of the 23 mantissa bits; ties go to even.
inline float round_to(float x, int kept) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000U) == 0x7f800000U) return x;
  const int dropped = 23 - kept;
  const std::uint32_t half = (1U << (dropped - 1)) - 1 + ((bits >> dropped) & 1U);
  return std::bit_cast<float>((bits + half) >> dropped << dropped);
}

}  // namespace troupe::emulated_cuda
