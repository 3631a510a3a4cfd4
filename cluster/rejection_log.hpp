// Lines about those who were not let in: anybody who reaches a port can cause them, so only a few are told one by one.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::cluster {

/// Tells the first few lines of each interval, and at its end how many more there were. For one thread.
class rejection_log {
 public:
  using clock = std::chrono::steady_clock;

  static constexpr std::uint32_t reported_each = 5;
  static constexpr std::chrono::seconds interval{60};

  /// What to say of this one; null: it is counted only.
  std::optional<std::string> add(const std::string& line, clock::time_point now);

  /// When `summary` is due; null: not as things are.
  std::optional<clock::time_point> due() const;

  /// What to say of those who were only counted; null: there are none.
  std::optional<std::string> summary();

 private:
  clock::time_point begin_;
  std::uint32_t told_ = 0;
  std::uint64_t suppressed_ = 0;
  std::string last_;
};

}  // namespace troupe::cluster
