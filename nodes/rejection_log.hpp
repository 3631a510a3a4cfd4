// Log lines about rejected connections. Anybody who reaches a port can cause them, so only a few are logged one by one.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::nodes {

/// Logs the first few lines of each interval, and at its end the number of the others. Thread: one.
class rejection_log {
 public:
  using clock = std::chrono::steady_clock;

  static constexpr std::uint32_t reported_each = 5;
  static constexpr std::chrono::seconds interval{60};

  /// Returns the line to log; null: it is only counted.
  std::optional<std::string> add(const std::string& line, clock::time_point now);

  /// Returns when to call `summary`; null: nothing has been counted.
  std::optional<clock::time_point> due() const;

  /// Returns a line about the counted ones; null: there are none.
  std::optional<std::string> summary();

 private:
  clock::time_point begin_;
  std::uint32_t told_ = 0;
  std::uint64_t suppressed_ = 0;
  std::string last_;
};

}  // namespace troupe::nodes
