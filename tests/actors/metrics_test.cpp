// What the ranks report of an epoch becomes one summary.

#include "actors/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace troupe {
namespace {

epoch_report report_of(std::uint32_t rank, std::uint64_t samples, double seconds, double loss_sum,
                       std::vector<double> losses, bool evaluates) {
  const std::uint64_t steps = losses.size();
  return {{}, rank, 4, steps, samples, seconds, loss_sum, tensor::own(steps, 1, std::move(losses)), evaluates};
}

evaluation share_of(std::uint32_t rank, std::uint64_t rows, std::uint64_t correct, std::vector<float> scores,
                    std::vector<float> labels) {
  const std::uint64_t scored = scores.size();
  return {
      {}, rank, 4, rows, correct, tensor::own(scored, 1, std::move(scores)), tensor::own(scored, 1, std::move(labels))};
}

TEST(metrics, an_epoch_is_complete_when_every_rank_has_reported) {
  epoch_gathering gathering(3);
  for (const std::uint32_t rank : {2U, 0U, 1U}) {
    EXPECT_FALSE(gathering.complete());
    gathering.add(report_of(rank, 1, 1, 1, {1}, false));
  }
  EXPECT_TRUE(gathering.complete());
}

TEST(metrics, an_epoch_that_evaluates_is_complete_when_every_share_is_there_in_any_order) {
  // Numbers 0 and 1 are the ranks' reports, 2 and 3 their shares.
  std::vector<int> order = {0, 1, 2, 3};
  do {
    epoch_gathering gathering(2);
    for (const int what : order) {
      EXPECT_FALSE(gathering.complete());
      const auto rank = static_cast<std::uint32_t>(what % 2);
      if (what < 2)
        gathering.add(report_of(rank, 1, 1, 1, {1}, true));
      else
        gathering.add(share_of(rank, 1, 1, {}, {}));
    }
    EXPECT_TRUE(gathering.complete());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(metrics, a_rank_beyond_the_trainers_is_refused) {
  epoch_gathering gathering(2);
  EXPECT_THROW(gathering.add(report_of(2, 1, 1, 1, {1}, false)), std::out_of_range);
  EXPECT_THROW(gathering.add(share_of(2, 1, 1, {}, {})), std::out_of_range);
}

TEST(metrics, loss_is_the_mean_over_samples_and_seconds_are_the_slowest_rank_s) {
  epoch_gathering gathering(3);
  gathering.add(report_of(1, 100, 2.5, 50, {0.5, 0.75}, false));
  gathering.add(report_of(2, 20, 1.5, 40, {2, std::numeric_limits<double>::quiet_NaN()}, false));
  gathering.add(report_of(0, 80, 2, 60, {0.25, 1}, false));
  const auto summary = gathering.summary();
  EXPECT_EQ(summary.epoch, 4U);
  EXPECT_EQ(summary.steps, 2U);
  EXPECT_EQ(summary.samples, 200U);
  EXPECT_EQ(summary.seconds, 2.5);
  EXPECT_EQ(summary.loss, 0.75);
  EXPECT_FALSE(summary.auc);
  EXPECT_FALSE(summary.accuracy);
  ASSERT_EQ(summary.losses.size(), 3U);
  EXPECT_EQ(summary.losses[0], (std::vector<double>{0.25, 1}));
  EXPECT_EQ(summary.losses[1], (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(summary.losses[2][0], 2);
  EXPECT_TRUE(std::isnan(summary.losses[2][1]));
}

// Neither rank's own area is that of both: positives {0.9, 0.2}, negatives {0.5, 0.1, 0.2}; of 6 pairs 4.5 in order.
TEST(metrics, auc_and_accuracy_are_over_the_test_rows_of_all_ranks) {
  epoch_gathering gathering(2);
  for (const std::uint32_t rank : {0U, 1U}) gathering.add(report_of(rank, 10, 1, 1, {1}, true));
  gathering.add(share_of(1, 2, 1, {0.2F, 0.2F}, {1, 0}));
  gathering.add(share_of(0, 3, 2, {0.9F, 0.5F, 0.1F}, {1, 0, 0}));
  const auto summary = gathering.summary();
  ASSERT_TRUE(summary.accuracy);
  EXPECT_EQ(*summary.accuracy, 3.0 / 5);
  ASSERT_TRUE(summary.auc);
  EXPECT_EQ(*summary.auc, 4.5 / 6);
}

TEST(metrics, there_is_no_auc_without_scores_of_both_classes) {
  const std::vector<float> none;
  const std::vector<float> scores = {0.1F, 0.2F};
  const std::vector<float> ones = {1, 1};
  for (const auto& [given, labels] : {std::pair(none, none), std::pair(scores, ones)}) {
    epoch_gathering gathering(1);
    gathering.add(report_of(0, 10, 1, 1, {1}, true));
    gathering.add(share_of(0, 2, 1, given, labels));
    const auto summary = gathering.summary();
    EXPECT_FALSE(summary.auc);
    ASSERT_TRUE(summary.accuracy);
    EXPECT_EQ(*summary.accuracy, 0.5);
  }
}

}  // namespace
}  // namespace troupe
