#include "actors/epoch_tally.hpp"

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
  progress_loss_ += loss * static_cast<double>(size);
  progress_samples_ += size;
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
  msg::epoch_report all;
  all.epoch = epoch_;
  all.samples = samples_;
  all.seconds = seconds(now);
  all.loss_sum = loss_sum_;
  all.losses = msg::tensor::own(count, 1, std::exchange(losses_, {}));
  all.skipped = std::exchange(skipped_, 0);
  all.lookups = std::exchange(lookups_, 0);
  all.staleness_sum = std::exchange(staleness_sum_, 0);
  all.staleness_max = std::exchange(staleness_max_, 0);
  return all;
}

std::optional<msg::progress> epoch_tally::tell_progress(clock::time_point now) {
  constexpr std::chrono::milliseconds interval{100};
  if (progress_samples_ == 0 || now - last_progress_ < interval) return std::nullopt;
  last_progress_ = now;
  return msg::progress{.head = {},
                       .samples = samples_,
                       .seconds = seconds(now),
                       .loss_sum = std::exchange(progress_loss_, 0),
                       .loss_samples = std::exchange(progress_samples_, 0)};
}

msg::save_dense epoch_tally::position(clock::time_point now, bool is_within) const {
  msg::save_dense all;
  all.skipped = skipped_;
  if (!is_within) return all;
  all.samples = samples_;
  all.loss_sum = loss_sum_;
  all.seconds = seconds(now);
  return all;
}

}  // namespace troupe::actors
