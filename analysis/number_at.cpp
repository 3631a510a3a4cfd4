#include "analysis/number_at.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace troupe::analysis {

namespace {

template <class T>
T bits_at(const void* numbers, std::size_t i) {
  T bits;
  std::memcpy(&bits, static_cast<const char*>(numbers) + i * sizeof bits, sizeof bits);
  return bits;
}

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
double half(std::uint16_t bits) {
  constexpr int special = 0x1f;
  const int exponent = bits >> 10 & special;
  const int fraction = bits & 0x3ff;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == special) return fraction == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(0x400 + fraction, exponent - 25));
}

}  // namespace

double number_at(msg::dtype type, const void* numbers, std::size_t i) {
  switch (type) {
    case msg::dtype::f16:
      return half(bits_at<std::uint16_t>(numbers, i));
    case msg::dtype::bf16:  // the upper half of a float32
      return std::bit_cast<float>(std::uint32_t{bits_at<std::uint16_t>(numbers, i)} << 16);
    case msg::dtype::f32:
      return bits_at<float>(numbers, i);
    case msg::dtype::f64:
      return bits_at<double>(numbers, i);
    case msg::dtype::i64:
      return static_cast<double>(bits_at<std::int64_t>(numbers, i));
    case msg::dtype::u64:
      break;
  }
  return static_cast<double>(bits_at<std::uint64_t>(numbers, i));
}

}  // namespace troupe::analysis
