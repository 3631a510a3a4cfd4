#include "trace/analysis/contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>

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

/// JSON has no NaN and no infinities.
boost::json::value number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

void add_numbers(dtype type, const std::string& bytes, boost::json::object& to) {
  const std::size_t count = bytes.size() / size_of(type);
  constexpr std::size_t shown = 8;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  double sum = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t zero = 0;
  boost::json::array first;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = number_at(type, bytes.data(), i);
    if (i < shown) first.push_back(number(x));
    if (std::isnan(x)) {
      ++nan;
      continue;
    }
    if (std::isinf(x)) ++infinite;
    if (x == 0) ++zero;
    least = std::min(least, x);
    most = std::max(most, x);
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
  to["abs_max"] = number(std::max(std::abs(least), std::abs(most)));
  to["mean"] = number(sum / static_cast<double>(count - nan));
}

std::string shape_of(const trace::content_part& part) {
  return fmt::format("{} {} x {}", part.type, part.rows, part.cols);
}

bool same_shape(const trace::content_part& a, const trace::content_part& b) {
  return a.name == b.name && std::tie(a.type, a.rows, a.cols) == std::tie(b.type, b.rows, b.cols);
}

}  // namespace

double number_at(dtype type, const void* numbers, std::size_t i) {
  switch (type) {
    case dtype::f16:
      return half(bits_at<std::uint16_t>(numbers, i));
    case dtype::bf16:  // the upper half of a float32
      return std::bit_cast<float>(std::uint32_t{bits_at<std::uint16_t>(numbers, i)} << 16);
    case dtype::f32:
      return bits_at<float>(numbers, i);
    case dtype::f64:
      return bits_at<double>(numbers, i);
    case dtype::i64:
      return static_cast<double>(bits_at<std::int64_t>(numbers, i));
    default:
      return static_cast<double>(bits_at<std::uint64_t>(numbers, i));
  }
}

boost::json::object peek(const trace::content_part& part) {
  boost::json::object what{{"name", part.name},
                           {"type", part.type},
                           {"rows", part.rows},
                           {"cols", part.cols},
                           {"digest", fmt::format("{:016x}", part.digest)},
                           {"has_bytes", !part.bytes.empty()}};
  if (part.bytes.empty()) return what;
  what["bytes"] = part.bytes.size();
  if (const auto type = dtype_named(part.type); type && is_message_type(*type)) add_numbers(*type, part.bytes, what);
  return what;
}

std::string compare_parts(const trace::content& a, const trace::content& b, std::string_view in_a,
                          std::string_view in_b) {
  const std::size_t both = std::min(a.parts.size(), b.parts.size());
  std::string text;
  std::size_t more = std::max(a.parts.size(), b.parts.size()) - both;
  for (std::size_t i = 0; i < both; ++i) {
    const trace::content_part& of_a = a.parts[i];
    const trace::content_part& of_b = b.parts[i];
    if (same_shape(of_a, of_b) && of_a.digest == of_b.digest) continue;
    if (!text.empty()) {
      ++more;
    } else if (of_a.name != of_b.name) {
      text = fmt::format("{} {} is {} {}", of_a.name, in_a, of_b.name, in_b);
    } else if (!same_shape(of_a, of_b)) {
      text = fmt::format("{} differs ({} {}, {} {})", of_a.name, shape_of(of_a), in_a, shape_of(of_b), in_b);
    } else {
      text = fmt::format("{} differs (digest {:016x} {}, {:016x} {})", of_a.name, of_a.digest, in_a, of_b.digest, in_b);
    }
  }
  if (text.empty() && more > 0) {
    const bool a_has = a.parts.size() > both;
    text = fmt::format("{} is only {}", (a_has ? a : b).parts[both].name, a_has ? in_a : in_b);
    --more;
  }
  if (more > 0) text += fmt::format(", and so do {} more of its parts", more);
  return text;
}

}  // namespace troupe::analysis
