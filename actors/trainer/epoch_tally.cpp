#include "actors/trainer/epoch_tally.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::actors {

void epoch_tally::resume(std::uint64_t epoch, const msg::trainer_position& from, clock::time_point now) {
  epoch_ = epoch;
  begin_epoch(now);
  samples_ = from.samples;
  loss_sum_ = from.loss_sum;
  begin_ -= std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(from.seconds));
}

void epoch_tally::begin_epoch(clock::time_point now) {
  ++epoch_;
  begin_ = now;
  samples_ = 0;
  loss_sum_ = 0;
  losses_.clear();
}

void epoch_tally::add_loss(double loss, std::uint64_t size) {
  losses_.push_back(loss);
  if (!std::isfinite(loss)) return;
  loss_sum_ += loss * static_cast<double>(size);
  samples_ += size;
  new_losses_.add(loss * static_cast<double>(size), size);
}

void epoch_tally::add_absent() { losses_.push_back(std::numeric_limits<double>::quiet_NaN()); }

void epoch_tally::add_rows(std::span<const msg::rows> answers) {
  for (const msg::rows& answer : answers) {
    ++lookups_;
    staleness_sum_ += answer.missing;
    staleness_max_ = std::max(staleness_max_, answer.missing);
  }
}

msg::epoch_report epoch_tally::report(clock::time_point now) {
  const std::uint64_t count = losses_.size();
  return {.head = {},
          .epoch = epoch_,
          .samples = samples_,
          .seconds = seconds(now),
          .loss_sum = loss_sum_,
          .losses = msg::tensor::own(count, 1, std::exchange(losses_, {})),
          .skipped = std::exchange(skipped_, 0),
          .lookups = std::exchange(lookups_, 0),
          .staleness_sum = std::exchange(staleness_sum_, 0),
          .staleness_max = std::exchange(staleness_max_, 0)};
}

std::optional<msg::progress> epoch_tally::report_progress(clock::time_point now) {
  if (new_losses_.empty()) return std::nullopt;
  auto report = new_losses_.report(now);
  if (!report) return report;
  report->samples = samples_;
  report->seconds = seconds(now);
  return report;
}

msg::save_dense epoch_tally::position(clock::time_point now, bool is_within) const {
  if (!is_within) return {.head = {}, .skipped = skipped_};
  return {.head = {}, .samples = samples_, .loss_sum = loss_sum_, .seconds = seconds(now), .skipped = skipped_};
}

}  // namespace troupe::actors
