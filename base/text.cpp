#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace troupe {

namespace {

/// The character of a valid UTF-8 sequence.
std::uint32_t character_of(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return first;
  // The first byte of a sequence of n bytes begins with n ones and a zero.
  std::uint32_t character = first & (0x7fU >> sequence.size());
  for (const char c : sequence.substr(1)) character = character << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return character;
}

bool is_control(std::uint32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

/// Line and paragraph separator, and what Unicode calls Bidi_Control.
bool is_separator_or_mark(std::uint32_t c) {
  return c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string harmless(std::string_view text, std::size_t limit) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    const std::string_view sequence = text.substr(at, std::max<std::size_t>(length, 1));
    at += sequence.size();
    if (at > limit) return shown + "...";
    const std::uint32_t character = length == 0 ? static_cast<unsigned char>(sequence.front()) : character_of(sequence);
    if (length == 0 || (character < 0x80 && is_control(character))) {
      shown += fmt::format("\\x{:02x}", character);
    } else if (is_control(character) || is_separator_or_mark(character)) {
      shown += fmt::format("\\u{:04x}", character);
    } else {
      shown += sequence;
    }
  }
  return shown;
}

std::string one_line(std::string_view text, std::size_t limit) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return harmless(line, limit);
}

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  const auto second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) return 0;
  return length;
}

std::size_t find_non_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace troupe
