#include "model/epoch_plan.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace troupe::model {

namespace {

std::uint64_t quotient_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

epoch_plan::epoch_plan(std::uint64_t epoch_samples, const std::vector<part>& parts) : epoch_samples_(epoch_samples) {
  TROUPE_ASSERT(epoch_samples > 0 && !parts.empty() && parts.front().first_step == 0);
  for (const part& one : parts) {
    TROUPE_ASSERT(one.trainers > 0 && one.samples > 0);
    TROUPE_ASSERT(periods_.empty() || one.first_step > periods_.back().what.first_step);
    period made{.what = one, .steps_per_epoch = quotient_up(epoch_samples, one.samples)};
    if (!periods_.empty()) {
      const place begin = place_in(periods_.back(), one.first_step);
      made.epoch = begin.epoch;
      made.steps_before = begin.step_of_epoch;
      made.first = begin.first;
    }
    made.steps_left = quotient_up(epoch_samples - made.first, one.samples);
    periods_.push_back(made);
  }
}

epoch_plan::place epoch_plan::of(std::uint64_t step) const {
  const auto after = std::ranges::find_if(periods_, [step](const period& one) { return one.what.first_step > step; });
  return place_in(*std::prev(after), step);
}

epoch_plan::place epoch_plan::place_in(const period& one, std::uint64_t step) const {
  const std::uint64_t since = step - one.what.first_step;
  place found{.trainers = one.what.trainers};
  if (since < one.steps_left) {
    found.epoch = one.epoch;
    found.step_of_epoch = one.steps_before + since;
    found.first = one.first + since * one.what.samples;
  } else {
    const std::uint64_t in_later = since - one.steps_left;
    found.epoch = one.epoch + 1 + in_later / one.steps_per_epoch;
    found.step_of_epoch = in_later % one.steps_per_epoch;
    found.first = found.step_of_epoch * one.what.samples;
  }
  found.samples = std::min(one.what.samples, epoch_samples_ - found.first);
  return found;
}

std::uint64_t epoch_plan::steps_until(std::uint64_t epochs) const {
  for (std::size_t i = 0; i < periods_.size(); ++i) {
    const period& one = periods_[i];
    const std::uint64_t steps =
        one.what.first_step +
        (epochs <= one.epoch ? 0 : one.steps_left + (epochs - one.epoch - 1) * one.steps_per_epoch);
    if (i + 1 == periods_.size() || steps <= periods_[i + 1].what.first_step) return steps;
  }
  return 0;
}

}  // namespace troupe::model
