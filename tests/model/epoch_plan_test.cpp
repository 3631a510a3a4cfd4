#include "model/epoch_plan.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "model/random.hpp"
#include "model/sampler.hpp"

namespace troupe::model::epoch_plan_test {
namespace {

/// Draws the parts of a run; full steps have 1 to `samples_max` samples.
std::vector<epoch_plan::part> drawn_parts(random_sequence& draw, std::uint64_t samples_max) {
  std::vector<epoch_plan::part> parts(1 + draw.below(5));
  std::uint64_t step = 0;
  for (epoch_plan::part& one : parts) {
    one = {step, static_cast<std::uint32_t>(1 + draw.below(7)), 1 + draw.below(samples_max)};
    step += 1 + draw.below(30);
  }
  return parts;
}

const epoch_plan::part& part_of(const std::vector<epoch_plan::part>& parts, std::uint64_t step) {
  std::size_t i = 0;
  while (i + 1 < parts.size() && parts[i + 1].first_step <= step) ++i;
  return parts[i];
}

TEST(EpochPlan, TakesEachEpochsSamplesFromAQueue) {
  random_sequence draw(7);
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t samples = 1 + draw.below(200);
    const auto parts = drawn_parts(draw, 60);
    const epoch_plan plan(samples, parts);
    std::deque<std::uint64_t> left;
    std::uint64_t epoch = 0;
    std::uint64_t step_of_epoch = 0;
    for (std::uint64_t step = 0; step < 150; ++step) {
      if (left.empty()) {
        left.resize(samples);
        std::iota(left.begin(), left.end(), 0);
        if (step > 0) {
          ++epoch;
          EXPECT_TRUE(plan.completes_epoch(step));
          EXPECT_EQ(plan.steps_until(epoch), step);
        }
        step_of_epoch = 0;
      } else {
        EXPECT_FALSE(plan.completes_epoch(step));
      }
      const epoch_plan::place at = plan.of(step);
      EXPECT_EQ(at.epoch, epoch);
      EXPECT_EQ(at.step_of_epoch, step_of_epoch++);
      EXPECT_EQ(plan.epochs_after(step), epoch);
      const epoch_plan::part& part = part_of(parts, step);
      ASSERT_EQ(at.trainers, part.trainers);
      // Deals the next samples out to the ranks in turn.
      std::vector<std::uint64_t> dealt(part.trainers);
      for (std::uint64_t i = 0; i < part.samples && !left.empty(); ++i) {
        EXPECT_EQ(at.first + i, left.front());
        ++dealt[i % part.trainers];
        left.pop_front();
      }
      for (std::uint64_t rank = 0; rank < part.trainers; ++rank) EXPECT_EQ(at.size_of(rank), dealt[rank]);
    }
  }
}

TEST(EpochPlan, GivesEachRowOfAnEpochToOneRankHoweverTheirNumberChanges) {
  random_sequence draw(11);
  for (int round = 0; round < 100; ++round) {
    const std::uint64_t rows = 1 + draw.below(300);
    const auto parts = drawn_parts(draw, 40);
    const epoch_plan plan(rows, parts);
    const sharded_sampler sampler(plan, 5);
    const sharded_sampler by_one(rows, 1, rows, 5);  // the epoch's order
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::uint64_t> all(rows, rows);
      for (std::uint64_t step = plan.steps_until(epoch); step < plan.steps_until(epoch + 1); ++step)
        for (std::uint32_t rank = 0; rank < part_of(parts, step).trainers; ++rank) {
          const auto share = sampler.of(step, rank);
          for (std::size_t i = 0; i < share.size(); ++i) {
            ASSERT_EQ(all.at(share.position(i)), rows) << "had before";
            all[share.position(i)] = share.row(i);
          }
        }
      const auto whole = by_one.of(epoch, 0);
      for (std::uint64_t i = 0; i < rows; ++i) ASSERT_EQ(all[i], whole.row(i));
    }
  }
}

TEST(EpochPlan, OfAFixedNumberOfStepsHasThem) {
  const epoch_plan plan(7);
  EXPECT_EQ(plan.steps_until(3), 21U);
  EXPECT_EQ(plan.of(15).epoch, 2U);
  EXPECT_EQ(plan.of(15).step_of_epoch, 1U);
}

}  // namespace
}  // namespace troupe::model::epoch_plan_test
