// Keys for given bits: inverts the hash of random_bits.hpp.

#pragma once

#include <cstdint>

#include "kernels/random_bits.hpp"

namespace troupe::kernels::test {

constexpr std::uint64_t inverse_of(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;  // doubles the correct bits each time
  return inverse;
}

/// The inverse of `mix`.
constexpr std::uint64_t unmix(std::uint64_t z) {
  const auto unshift = [](std::uint64_t x, int by) {
    std::uint64_t y = x;
    for (int done = by; done < 64; done += by) y = x ^ (y >> by);
    return y;
  };
  z = unshift(z, 31) * inverse_of(splitmix::second_factor);
  z = unshift(z, 27) * inverse_of(splitmix::first_factor);
  return unshift(z, 30);
}

/// Returns the key whose stream has `bits` as value `counter`.
constexpr std::uint64_t key_for(std::uint64_t bits, std::uint64_t counter) {
  return unmix(bits) - (counter + 1) * splitmix::increment;
}

/// Random bits for uniform numbers at 0, at quarters of 1, and just below 1.
inline constexpr std::uint64_t extreme_bits[] = {0,
                                                 1 << 11,
                                                 std::uint64_t{1} << 62,
                                                 std::uint64_t{2} << 62,
                                                 std::uint64_t{3} << 62,
                                                 ~std::uint64_t{0},
                                                 ~std::uint64_t{0} - (1 << 11)};

}  // namespace troupe::kernels::test
