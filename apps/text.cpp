#include "apps/text.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "model/text.hpp"

namespace troupe {
namespace {

/// Thirty years; beyond it an estimate means nothing.
constexpr double duration_max = 1e9;

}  // namespace

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string compact(double value) {
  if (!std::isfinite(value)) return "-";
  constexpr std::array<const char*, 6> units = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  // 999.5 and more would be shown as 1000 of the smaller unit.
  for (; std::fabs(value) >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000;
  const double size = std::fabs(value);
  const int digits = size >= 99.95 || (unit == 0 && value == std::floor(value)) ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

std::string duration(double seconds) {
  if (!(seconds >= 0 && seconds <= duration_max)) return "-";
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string clock_time(double seconds) {
  if (!(seconds >= 0 && seconds <= duration_max)) return "-";
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string fixed(std::optional<double> value, int digits) {
  if (!value || !std::isfinite(*value)) return "-";
  return fmt::format("{:.{}f}", *value, digits);
}

std::string significant(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  return fmt::format("{:#.6g}", *value);
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (column > 0 && column + 1 + end > width) {
      out += '\n';
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    if (end < text.size() && text[end] == '\n') {
      out += '\n';
      column = 0;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return text;
  std::string word = "'";
  for (const char c : printable_path(text)) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::size_t terminal_columns(int descriptor, std::size_t otherwise) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* text = std::getenv("COLUMNS")) {
    std::size_t columns = 0;
    const char* end = text + std::strlen(text);
    if (std::from_chars(text, end, columns).ptr == end && columns > 0) return columns;
  }
  return otherwise;
}

}  // namespace troupe
