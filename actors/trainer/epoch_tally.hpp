// What a trainer counts and reports while it trains: for the current epoch, since the last epoch report, and since the
// last progress report. It reads no clock: the caller passes times.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/trainer/progress_losses.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to one thread.
class epoch_tally {
 public:
  using clock = std::chrono::steady_clock;

  /// Resumes in epoch `epoch` (from 0) with the counts in `from`.
  void resume(std::uint64_t epoch, const msg::trainer_position& from, clock::time_point now);
  /// Begins the next epoch.
  void begin_epoch(clock::time_point now);
  /// Excludes the time since `since` from the epoch.
  void pause(clock::time_point since, clock::time_point now) { begin_ += now - since; }

  /// Adds a batch of `size` samples with this mean loss. If the loss is NaN or Inf, counts a step but no samples.
  void add_loss(double loss, std::uint64_t size);
  /// Counts a step without a batch of this rank.
  void add_absent();
  /// Adds the answers to a step's lookups.
  void add_rows(std::span<const msg::rows> answers);
  /// Counts an optimizer step that all ranks have skipped.
  void add_skipped() { ++skipped_; }

  /// Returns the epoch's figures so far, without header, rank, and the fields that other parts fill in (`steps`,
  /// `evaluates`). Resets the counts that belong to one report.
  msg::epoch_report report(clock::time_point now);
  /// Returns the current position, without header; none within 100 ms of the last one, or if nothing is new.
  std::optional<msg::progress> report_progress(clock::time_point now);
  /// The counts that a checkpoint keeps, without header and weights. `is_within`: the epoch is not over.
  msg::save_dense position(clock::time_point now, bool is_within) const;

  /// The epoch's number, from 1.
  std::uint64_t epoch() const { return epoch_; }

 private:
  double seconds(clock::time_point now) const { return std::chrono::duration<double>(now - begin_).count(); }

  std::uint64_t epoch_ = 0;
  clock::time_point begin_;
  std::uint64_t samples_ = 0;
  double loss_sum_ = 0;

  // Since the last epoch report.
  std::vector<double> losses_;  ///< by step; NaN: no batch
  std::uint64_t skipped_ = 0;
  std::uint64_t lookups_ = 0;
  std::uint64_t staleness_sum_ = 0;
  std::uint32_t staleness_max_ = 0;

  progress_losses new_losses_{std::chrono::milliseconds(100)};
};

}  // namespace troupe::actors
