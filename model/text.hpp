// Reading numbers and names from text, and showing a user's text in a message.

#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace troupe {

/// The number that all of `text` spells, without blanks, plus sign or unit; nullopt if it does not or does not fit.
/// For double "nan" and "inf" count as numbers, so that the caller's limits refuse them.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `text` fit for a one-line message: harmless, as base/text.hpp says, at most about `limit` bytes, '' if it is empty.
std::string printable(std::string_view text, std::size_t limit = 80);

/// A path fit for a one-line message: whole, since its end is what tells files apart.
std::string printable_path(std::string_view path);

/// The parts of `text` between separators; one part, `text` itself, where there is none.
std::vector<std::string_view> split(std::string_view text, char separator);

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& names);

}  // namespace troupe
