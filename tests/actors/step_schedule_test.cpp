// Which step ends what, listed step by step.

#include "actors/trainer/step_schedule.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace troupe::actors::step_schedule_test {
namespace {

/// Returns the steps of a run for which `is_so` holds.
std::vector<std::uint64_t> steps(const step_schedule& of, const std::function<bool(std::uint64_t)>& is_so) {
  std::vector<std::uint64_t> found;
  for (std::uint64_t step = 1; step <= of.total_steps; ++step)
    if (is_so(step)) found.push_back(step);
  return found;
}

using list = std::vector<std::uint64_t>;

TEST(StepSchedule, TheLastOptimizerStepMayBeShort) {
  const step_schedule of{.total_steps = 8, .epochs = model::epoch_plan(8), .accumulate = 3};
  EXPECT_EQ(steps(of, [&](auto step) { return of.begins_update(step); }), (list{1, 4, 7}));
  EXPECT_EQ(steps(of, [&](auto step) { return of.ends_update(step); }), (list{3, 6, 8}));
  list updates;
  list seen_by;
  for (std::uint64_t step = 1; step <= 8; ++step) {
    updates.push_back(of.update(step));
    seen_by.push_back(of.first_after_update(step));
  }
  EXPECT_EQ(updates, (list{1, 1, 1, 2, 2, 2, 3, 3}));
  EXPECT_EQ(seen_by, (list{2, 3, 4, 5, 6, 7, 8, 10})) << "step 9 would belong to the short one and wait for it";
}

TEST(StepSchedule, EpochsAreCountedAndTheLastMayBeShort) {
  const step_schedule of{.total_steps = 7, .epochs = model::epoch_plan(3)};
  EXPECT_EQ(steps(of, [&](auto step) { return of.completes_epoch(step); }), (list{3, 6}));
  list places;
  list epochs;
  for (std::uint64_t step = 1; step <= 7; ++step) {
    places.push_back(of.step_of_epoch(step));
    epochs.push_back(of.epoch_after(step));
  }
  EXPECT_EQ(places, (list{1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(epochs, (list{0, 0, 1, 1, 1, 2, 2}));
  const step_schedule whole{.total_steps = 6, .epochs = model::epoch_plan(3)};
  EXPECT_EQ(whole.epoch_after(6), 1U) << "the last epoch, though it is over";
}

TEST(StepSchedule, TestRowsFollowEveryFewEpochsAndTheLastStep) {
  step_schedule of{.total_steps = 11, .epochs = model::epoch_plan(2), .eval_every = 2};
  const auto evaluates = [&](auto step) { return of.evaluates_after(step); };
  EXPECT_EQ(steps(of, evaluates), (list{4, 8, 11}));
  of.eval_every = 1;
  EXPECT_EQ(steps(of, evaluates), (list{2, 4, 6, 8, 10, 11}));
  of.eval_every = 0;
  EXPECT_EQ(steps(of, evaluates), list{});
}

TEST(StepSchedule, CheckpointsFollowTheOptimizerStepInWhichOneIsDue) {
  step_schedule of{
      .total_steps = 14, .epochs = model::epoch_plan(14), .accumulate = 3, .saves = true, .checkpoint_every = 4};
  const auto saves = [&](auto step) { return of.saves_after(step, false); };
  EXPECT_EQ(steps(of, saves), (list{6, 9, 12, 14})) << "due after 4, 8 and 12, and at the end";
  EXPECT_EQ(steps(of, [&](auto step) { return of.saves_after(step, true); }), (list{3, 6, 9, 12, 14}));
  EXPECT_EQ(steps(of, [&](auto step) { return of.continues_after(step); }), (list{1, 2, 3, 4, 5, 7, 8, 10, 11, 13}));
  of.epochs = model::epoch_plan(5);
  EXPECT_EQ(steps(of, [&](auto step) { return of.continues_after(step); }), (list{1, 2, 3, 4, 7, 8, 11, 13}));
  of.checkpoint_every = 0;
  EXPECT_EQ(steps(of, saves), list{14});
  of.saves = false;
  EXPECT_EQ(steps(of, [&](auto step) { return of.saves_after(step, true); }), list{});
}

}  // namespace
}  // namespace troupe::actors::step_schedule_test
