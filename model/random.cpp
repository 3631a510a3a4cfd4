#include "model/random.hpp"

#include <bit>
#include <cmath>

namespace troupe {

namespace {

constexpr double pi = 3.14159265358979323846;

// ln(x) for normal x > 0: with x = 2^e * m and m in [sqrt(1/2), sqrt(2)), e ln 2 + 2 atanh((m - 1) / (m + 1)).
double natural_logarithm(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  // Adding the distance from sqrt(1/2) to 1 carries into the exponent exactly if m >= sqrt(2).
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t one = 0x3ff0000000000000;
  const std::uint64_t shifted = bits + (one - root_half);
  const auto exponent = static_cast<double>(static_cast<std::int64_t>(shifted >> 52) - 1023);
  const auto mantissa = std::bit_cast<double>((shifted & 0x000fffffffffffff) + root_half);
  const double s = (mantissa - 1) / (mantissa + 1);
  const double z = s * s;
  // |s| <= 0.1716: the first term left out is below 2e-13.
  double series = 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  series = series * z + 1;
  return exponent * 0.69314718055994530942 + 2 * s * series;
}

// cos(2 pi u) for u in [0, 1), as sin(2 pi (|u - 1/2| - 1/4)) with an argument of at most pi/2.
double cosine_of_turn(double u) {
  const double x = 2 * pi * (std::fabs(u - 0.5) - 0.25);
  const double z = x * x;
  // The first term left out is below 7e-12.
  double series = -1.0 / 1307674368000;
  series = series * z + 1.0 / 6227020800;
  series = series * z - 1.0 / 39916800;
  series = series * z + 1.0 / 362880;
  series = series * z - 1.0 / 5040;
  series = series * z + 1.0 / 120;
  series = series * z - 1.0 / 6;
  series = series * z + 1;
  return x * series;
}

constexpr std::uint64_t low_bits(unsigned count) { return count == 0 ? 0 : ~std::uint64_t{0} >> (64 - count); }

}  // namespace

float uniform(std::uint64_t key, std::uint64_t counter, float low, float high) {
  const double width = static_cast<double>(high) - static_cast<double>(low);
  return static_cast<float>(static_cast<double>(low) + width * unit_from(random_bits(key, counter)));
}

float standard_normal(std::uint64_t key, std::uint64_t counter) {
  const double u1 = 1 - unit_from(random_bits(key, 2 * counter));
  const double u2 = unit_from(random_bits(key, 2 * counter + 1));
  return static_cast<float>(std::sqrt(-2 * natural_logarithm(u1)) * cosine_of_turn(u2));
}

std::uint64_t shuffled(std::uint64_t n, std::uint64_t key, std::uint64_t i) {
  const auto width = static_cast<unsigned>(std::bit_width(n - 1));
  const unsigned high_width = width / 2;
  const unsigned low_width = width - high_width;
  // Few bits mix slowly: six rounds also make the permutations of small n look alike only by chance.
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

}  // namespace troupe
