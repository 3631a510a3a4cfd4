// A trainer's counts, at times given by the test.

#include "actors/trainer/epoch_tally.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe::actors::epoch_tally_test {
namespace {

using namespace std::chrono_literals;

constexpr epoch_tally::clock::time_point start{1h};

epoch_tally begun() {
  epoch_tally tally;
  tally.resume(0, {}, start);
  return tally;
}

TEST(EpochTally, SamplesWeighTheLossesAndStepsWithoutOneCountAsStepsOnly) {
  epoch_tally tally = begun();
  tally.add_loss(0.5, 8);
  tally.add_absent();
  tally.add_loss(std::numeric_limits<double>::infinity(), 8);
  tally.add_loss(2, 3);
  const msg::epoch_report told = tally.report(start + 4s);
  EXPECT_EQ(told.epoch, 1U);
  EXPECT_EQ(told.samples, 11U);
  EXPECT_EQ(told.loss_sum, 10.0);
  EXPECT_EQ(told.seconds, 4.0);
  ASSERT_EQ(told.losses.rows, 4U);
  const auto losses = told.losses.as<double>();
  EXPECT_EQ(losses[0], 0.5);
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_TRUE(std::isinf(losses[2]));
  EXPECT_EQ(losses[3], 2.0);
}

TEST(EpochTally, AnEpochBeginsWithNothing) {
  epoch_tally tally = begun();
  tally.add_loss(1, 2);
  tally.report(start + 1s);
  tally.begin_epoch(start + 3s);
  const msg::epoch_report told = tally.report(start + 5s);
  EXPECT_EQ(told.epoch, 2U);
  EXPECT_EQ(told.samples, 0U);
  EXPECT_EQ(told.loss_sum, 0.0);
  EXPECT_EQ(told.losses.rows, 0U);
  EXPECT_EQ(told.seconds, 2.0);
}

TEST(EpochTally, SkippedStepsAndStaleRowsAreToldOnce) {
  epoch_tally tally = begun();
  std::vector<msg::rows> answers(2);
  answers[0].missing = 3;
  tally.add_rows(answers);
  answers[1].missing = 5;
  tally.add_rows(answers);
  tally.add_skipped();
  EXPECT_EQ(tally.position(start, true).skipped, 1U) << "a checkpoint keeps them without taking them";
  const msg::epoch_report told = tally.report(start);
  EXPECT_EQ(told.skipped, 1U);
  EXPECT_EQ(told.lookups, 4U);
  EXPECT_EQ(told.staleness_sum, 11U);
  EXPECT_EQ(told.staleness_max, 5U);
  const msg::epoch_report again = tally.report(start);
  EXPECT_EQ(again.skipped + again.lookups + again.staleness_sum + again.staleness_max, 0U);
}

TEST(EpochTally, ItGoesOnWhereACheckpointWasTaken) {
  epoch_tally first = begun();
  first.add_loss(0.25, 4);
  const msg::save_dense kept = first.position(start + 10s, true);
  msg::trainer_position from;
  from.samples = kept.samples;
  from.loss_sum = kept.loss_sum;
  from.seconds = kept.seconds;
  epoch_tally second;
  second.resume(6, from, start + 100s);
  second.add_loss(1, 4);
  const msg::epoch_report told = second.report(start + 101s);
  EXPECT_EQ(told.epoch, 7U);
  EXPECT_EQ(told.samples, 8U);
  EXPECT_EQ(told.loss_sum, 5.0);
  EXPECT_EQ(told.seconds, 11.0);
  const msg::save_dense over = first.position(start + 10s, false);
  EXPECT_EQ(over.samples, 0U) << "of an epoch that is over nothing is left to go on with";
  EXPECT_EQ(over.seconds, 0.0);
}

TEST(EpochTally, TheTimeOfACheckpointIsNoneOfTheEpochs) {
  epoch_tally tally = begun();
  tally.pause(start + 2s, start + 9s);
  EXPECT_EQ(tally.report(start + 10s).seconds, 3.0);
}

TEST(EpochTally, ProgressIsToldTenTimesASecondAtMostAndOnlyIfThereIsAny) {
  epoch_tally tally = begun();
  EXPECT_FALSE(tally.report_progress(start + 1s)) << "no sample yet";
  tally.add_loss(2, 3);
  const auto first = tally.report_progress(start + 1s);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->samples, 3U);
  EXPECT_EQ(first->loss_sum, 6.0);
  EXPECT_EQ(first->loss_samples, 3U);
  EXPECT_EQ(first->seconds, 1.0);
  tally.add_loss(1, 5);
  EXPECT_FALSE(tally.report_progress(start + 1s + 99ms));
  const auto second = tally.report_progress(start + 1s + 100ms);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->samples, 8U) << "of the epoch";
  EXPECT_EQ(second->loss_sum, 5.0) << "since the last word";
  EXPECT_EQ(second->loss_samples, 5U);
}

}  // namespace
}  // namespace troupe::actors::epoch_tally_test
