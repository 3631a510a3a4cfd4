// What a trainer counts while it trains, and reports: of the epoch under way, of all since the last report of an epoch,
// and since the last word of progress. It reads no clock: times are given.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to one thread.
class epoch_tally {
 public:
  using clock = std::chrono::steady_clock;

  /// Goes on with epoch `epoch` (from 0), of which `from` has the counts.
  void resume(std::uint64_t epoch, const msg::trainer_position& from, clock::time_point now);
  /// The next epoch.
  void begin_epoch(clock::time_point now);
  /// The time since `since` is none of the epoch's.
  void pause(clock::time_point since, clock::time_point now) { begin_ += now - since; }

  /// A batch of `size` samples had this mean loss. One that is NaN or Inf counts as a step, not as samples.
  void add_loss(double loss, std::uint64_t size);
  /// The rank had no batch.
  void add_absent();
  /// The answers to a step's lookups.
  void add_rows(std::span<const msg::rows> answers);
  /// All ranks have left an optimizer step out.
  void add_skipped() { ++skipped_; }

  /// The epoch's figures up to now, without header, rank, and what is known elsewhere (`steps`, `evaluates`). What is
  /// counted for each report begins anew.
  msg::epoch_report report(clock::time_point now);
  /// Where it is, without header; nothing within 100 ms of the last time, or if there is nothing new.
  std::optional<msg::progress> tell_progress(clock::time_point now);
  /// The counts that a checkpoint keeps, without header and weights. `is_within`: the epoch is not over.
  msg::save_dense position(clock::time_point now, bool is_within) const;

  /// From 1.
  std::uint64_t epoch() const { return epoch_; }

 private:
  double seconds(clock::time_point now) const { return std::chrono::duration<double>(now - begin_).count(); }

  std::uint64_t epoch_ = 0;
  clock::time_point begin_;
  std::uint64_t samples_ = 0;
  double loss_sum_ = 0;

  // Since the last report of an epoch.
  std::vector<double> losses_;  ///< by step; NaN: no batch
  std::uint64_t skipped_ = 0;
  std::uint64_t lookups_ = 0;
  std::uint64_t staleness_sum_ = 0;
  std::uint32_t staleness_max_ = 0;

  // Since the last word of progress.
  clock::time_point last_progress_;
  double progress_loss_ = 0;
  std::uint64_t progress_samples_ = 0;
};

}  // namespace troupe::actors
