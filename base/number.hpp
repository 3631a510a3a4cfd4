// Numbers from text.

#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

/// Rounds a real number out of double's range to 0 or infinity, with its sign. Requires: std::from_chars reports `text`
/// as out of range.
double rounded_out_of_range(std::string_view text);

/// Parses all of `text` as a number, without blanks or unit; a leading plus sign is allowed. Null if it is not a
/// number, or a whole number that does not fit. For double, "nan" and "inf" are numbers, and too large numbers become
/// infinite, so that the caller's limits refuse them; too small ones become 0.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::floating_point<T>)
    if (error == std::errc::result_out_of_range) return static_cast<T>(rounded_out_of_range(text));
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// The same for a whole number in another base, such as 16, without a plus sign.
template <std::integral T>
std::optional<T> parse_number(std::string_view text, int base) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace troupe
