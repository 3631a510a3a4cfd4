#include "base/number.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace troupe {

double rounded_out_of_range(std::string_view text) {
  const double sign = text.starts_with('-') ? -1 : 1;
  const std::size_t end = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, end);
  const std::string_view exponent = text.substr(std::min(end + 1, text.size()));
  // The sign of an exponent that does not fit decides: no text has so many digits.
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max() / 2;
  std::int64_t power = 0;
  if (end < text.size()) power = parse_number<std::int64_t>(exponent).value_or(exponent.starts_with('-') ? -far : far);
  // The power of ten of the first significant digit.
  const std::size_t first = std::min(digits.find_first_of("123456789"), digits.size());
  const std::size_t point = std::min(digits.find('.'), digits.size());
  power = std::min(std::max(power, -far), far) + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  return sign * (power > 0 ? std::numeric_limits<double>::infinity() : 0.0);
}

}  // namespace troupe
