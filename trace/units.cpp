#include "trace/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace troupe::trace {

std::string time_text(nanoseconds time) {
  const double ns = static_cast<double>(time);
  const double size = std::abs(ns);
  if (size < 1e3) return fmt::format("{} ns", time);
  if (size < 999.95e3) return fmt::format("{:.1f} us", ns / 1e3);
  if (size < 999.95e6) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
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

std::string share_text(nanoseconds part, nanoseconds whole) {
  if (whole <= 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace troupe::trace
