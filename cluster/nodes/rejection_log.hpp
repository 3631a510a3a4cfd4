// Log lines about rejected connections. Anyone who reaches a port can cause them, so only a few are logged one by one.

#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace troupe::nodes {

/// Logs the first few lines of each interval, and at its end the number of the others. Thread: one.
class rejection_log {
 public:
  using clock = std::chrono::steady_clock;

  static constexpr std::uint32_t reported_each = 5;
  static constexpr std::chrono::seconds interval{60};

  /// Returns the line to log; null: it is only counted.
  std::optional<std::string> add(const std::string& line, clock::time_point now) {
    if (suppressed_ == 0 && (reported_ == 0 || now - begin_ >= interval)) {
      begin_ = now;
      reported_ = 0;
    }
    if (reported_ < reported_each) {
      ++reported_;
      return line;
    }
    ++suppressed_;
    last_ = line;
    return std::nullopt;
  }

  /// Returns when to call `summary`; null: nothing has been counted.
  std::optional<clock::time_point> due() const {
    return suppressed_ == 0 ? std::nullopt : std::optional(begin_ + interval);
  }

  /// Returns a line about the suppressed lines, or null.
  std::optional<std::string> summary() {
    if (suppressed_ == 0) return std::nullopt;
    reported_ = 0;
    return fmt::format("{} more within {} s, the last: {}", std::exchange(suppressed_, 0), interval.count(), last_);
  }

 private:
  clock::time_point begin_;
  std::uint32_t reported_ = 0;
  std::uint64_t suppressed_ = 0;
  std::string last_;
};

}  // namespace troupe::nodes
