#include "base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace troupe {
namespace {

/// Thirty years; a longer estimate means nothing.
constexpr double duration_max = 1e9;

}  // namespace

std::string time_text(std::int64_t nanoseconds) {
  const double ns = static_cast<double>(nanoseconds);
  const double size = std::abs(ns);
  if (size < 1e3) return fmt::format("{} ns", nanoseconds);
  if (size < 999.95e3) return fmt::format("{:.1f} us", ns / 1e3);
  if (size < 999.95e6) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0 && seconds <= duration_max)) return "-";
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string clock_text(double seconds) {
  if (!(seconds >= 0 && seconds <= duration_max)) return "-";
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<const char*, 5> units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1023.95 && unit + 1 < units.size(); ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, units[unit]);
}

std::string count_text(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string compact(double value) {
  if (!std::isfinite(value)) return "-";
  constexpr std::array<const char*, 6> units = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  // 999.5 and more would be rounded to 1000 of the smaller unit.
  for (; std::fabs(value) >= 999.5 && unit + 1 < units.size(); ++unit) value /= 1000;
  const double size = std::fabs(value);
  const int digits = size >= 99.95 || (unit == 0 && value == std::floor(value)) ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

std::string share_text(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string fixed(std::optional<double> value, int digits) {
  if (!value || !std::isfinite(*value)) return "-";
  return fmt::format("{:.{}f}", *value, digits);
}

std::string significant(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  return fmt::format("{:#.6g}", *value);
}

}  // namespace troupe
