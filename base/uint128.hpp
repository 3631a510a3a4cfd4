// 128-bit integers, an extension of gcc and clang.

#pragma once

#include <cstdint>

namespace troupe {

__extension__ using uint128 = unsigned __int128;

/// Returns the upper 64 bits of a product.
constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((uint128{a} * b) >> 64);
}

}  // namespace troupe
