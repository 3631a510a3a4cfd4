#include "page/payload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace troupe::page {

namespace {

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
struct float16 {
  std::uint16_t bits;
  explicit operator double() const {
    const int exponent = bits >> 10 & 0x1f;
    const int fraction = bits & 0x3ff;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 0x1f)
      return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(fraction + 0x400, exponent - 25);
  }
};

/// The upper half of a float32.
struct bfloat16 {
  std::uint16_t bits;
  explicit operator double() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// JSON has no NaN and no infinities.
boost::json::value number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

template <class T>
void add_numbers(const std::string& bytes, boost::json::object& to) {
  const std::size_t count = bytes.size() / sizeof(T);
  constexpr std::size_t shown = 8;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  double sum = 0;
  double largest = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t zero = 0;
  boost::json::array first;
  for (std::size_t i = 0; i < count; ++i) {
    T raw;
    std::memcpy(&raw, bytes.data() + i * sizeof(T), sizeof(T));
    const auto x = static_cast<double>(raw);
    if (i < shown) first.push_back(number(x));
    if (std::isnan(x)) {
      ++nan;
      continue;
    }
    if (std::isinf(x)) ++infinite;
    if (x == 0) ++zero;
    least = std::min(least, x);
    most = std::max(most, x);
    largest = std::max(largest, std::abs(x));
    sum += x;
  }
  to["numbers"] = count;
  to["nan"] = nan;
  to["inf"] = infinite;
  to["zero"] = zero;
  to["first"] = std::move(first);
  if (count == nan) return;  // nothing to compare
  to["min"] = number(least);
  to["max"] = number(most);
  to["abs_max"] = number(largest);
  to["mean"] = number(sum / static_cast<double>(count - nan));
}

}  // namespace

boost::json::object peek(const trace::content_part& part) {
  boost::json::object what{{"name", part.name},
                           {"type", part.type},
                           {"rows", part.rows},
                           {"cols", part.cols},
                           {"digest", fmt::format("{:016x}", part.digest)},
                           {"has_bytes", !part.bytes.empty()}};
  if (part.bytes.empty()) return what;
  what["bytes"] = part.bytes.size();
  if (part.type == "float32") add_numbers<float>(part.bytes, what);
  if (part.type == "float64") add_numbers<double>(part.bytes, what);
  if (part.type == "int64") add_numbers<std::int64_t>(part.bytes, what);
  if (part.type == "uint64") add_numbers<std::uint64_t>(part.bytes, what);
  if (part.type == "float16") add_numbers<float16>(part.bytes, what);
  if (part.type == "bfloat16") add_numbers<bfloat16>(part.bytes, what);
  return what;
}

}  // namespace troupe::page
