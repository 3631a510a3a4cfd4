// The losses since a trainer's last progress report, and when the next report is due.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "protocol/messages.hpp"

namespace troupe::actors {

/// Reads no clock: the caller passes times. Belongs to one thread.
class progress_losses {
 public:
  using clock = std::chrono::steady_clock;

  /// `interval`: the minimum time between two reports.
  explicit progress_losses(std::chrono::milliseconds interval) : interval_(interval) {}

  /// Training begins.
  void start(clock::time_point now) { begin_ = now; }
  /// Adds the sum of the losses of `count` samples or batches.
  void add(double sum, std::uint64_t count) {
    sum_ += sum;
    count_ += count;
  }
  bool empty() const { return count_ == 0; }

  /// Returns a report of these losses, and starts over; none within the interval after the last report.
  std::optional<msg::progress> report(clock::time_point now) {
    if (now - last_ < interval_) return std::nullopt;
    last_ = now;
    return msg::progress{.head = {},
                         .seconds = std::chrono::duration<double>(now - begin_).count(),
                         .loss_sum = std::exchange(sum_, 0),
                         .loss_samples = std::exchange(count_, 0)};
  }

 private:
  std::chrono::milliseconds interval_;
  clock::time_point begin_;
  clock::time_point last_;
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace troupe::actors
