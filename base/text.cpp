#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace troupe {

namespace {

/// Decodes a valid UTF-8 sequence.
std::uint32_t character_of(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return first;
  // The first byte of a sequence of n bytes begins with n ones and a zero.
  std::uint32_t character = first & (0x7fU >> sequence.size());
  for (const char c : sequence.substr(1)) character = character << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return character;
}

bool is_control(std::uint32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

/// Line and paragraph separators, and characters of the Unicode property Bidi_Control.
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
    if (length == 0 || (character < 0x80 && is_control(character)))
      shown += fmt::format("\\x{:02x}", character);
    else if (is_control(character) || is_separator_or_mark(character))
      shown += fmt::format("\\u{:04x}", character);
    else
      shown += sequence;
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
  for (std::size_t at = 1; at < length; ++at)
    if ((byte(at) & 0xc0) != 0x80) return 0;
  // Refuses overlong forms, surrogates, and numbers beyond U+10FFFF.
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

namespace {

// The fewest insertions, deletions, replacements and swaps of neighbors; each position is edited once (optimal string
// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  // A name is short; for a long text only its beginning is compared, to bound the cost.
  const std::string_view beginning = std::string_view(name).substr(0, 64);
  const auto best = std::ranges::min_element(
      candidates, {}, [beginning](const std::string& candidate) { return edit_distance(beginning, candidate); });
  return best == candidates.end() ? std::string() : *best;
}

std::string suggestions(std::string_view name, const std::vector<std::string>& candidates) {
  return fmt::format("the nearest is {}, and there are {}", nearest(std::string(name), candidates),
                     alternatives(candidates));
}

std::string printable(std::string_view text, std::size_t limit) { return text.empty() ? "''" : harmless(text, limit); }

std::string printable_path(std::string_view path) { return printable(path, 4096); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

}  // namespace troupe
