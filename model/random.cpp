#include "model/random.hpp"

#include <bit>

namespace troupe::model {

namespace {

constexpr std::uint64_t low_bits(unsigned count) { return count == 0 ? 0 : ~std::uint64_t{0} >> (64 - count); }

}  // namespace

std::uint64_t shuffled(std::uint64_t n, std::uint64_t key, std::uint64_t i) {
  const auto width = static_cast<unsigned>(std::bit_width(n - 1));
  const unsigned high_width = width / 2;
  const unsigned low_width = width - high_width;
  // Few bits mix slowly: with six rounds, permutations of small n are also independent.
  constexpr std::uint64_t rounds = 6;
  do {
    std::uint64_t low = i & low_bits(low_width);
    std::uint64_t high = i >> low_width;
    for (std::uint64_t round = 0; round < rounds; round += 2) {
      low ^= random_bits(key, high * rounds + round) & low_bits(low_width);
      high ^= random_bits(key, low * rounds + round + 1) & low_bits(high_width);
    }
    i = (high << low_width) | low;
  } while (i >= n);
  return i;
}

}  // namespace troupe::model
