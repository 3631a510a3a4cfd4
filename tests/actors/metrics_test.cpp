// The ranks' reports of an epoch become one summary.

#include "actors/master/run_figures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

namespace troupe::actors::metrics_test {
namespace {

msg::epoch_report report_of(std::uint32_t rank, std::uint64_t samples, double seconds, double loss_sum,
                            std::vector<double> losses, bool evaluates) {
  const std::uint64_t steps = losses.size();
  msg::header head;
  head.step = 32;
  return {head, rank, 4, steps, samples, seconds, loss_sum, msg::tensor::own(steps, 1, std::move(losses)), evaluates};
}

msg::evaluation share_of(std::uint32_t rank, std::uint64_t rows, std::uint64_t correct, std::vector<float> scores,
                         std::vector<float> labels, double log_loss_sum = 0, double probability_sum = 0,
                         std::uint64_t tested = 0, double loss_sum = 0) {
  const std::uint64_t scored = scores.size();
  return {{},
          rank,
          4,
          rows,
          correct,
          msg::tensor::own(scored, 1, std::move(scores)),
          msg::tensor::own(scored, 1, std::move(labels)),
          log_loss_sum,
          probability_sum,
          tested,
          loss_sum};
}

TEST(Metrics, AnEpochIsCompleteWhenEveryRankHasReported) {
  epoch_totals gathering(3, model::loss_kind::bce_logits);
  for (const std::uint32_t rank : {2U, 0U, 1U}) {
    EXPECT_FALSE(gathering.complete());
    gathering.add(report_of(rank, 1, 1, 1, {1}, false));
  }
  EXPECT_TRUE(gathering.complete());
}

TEST(Metrics, AnEpochThatEvaluatesIsCompleteWhenEveryShareIsThereInAnyOrder) {
  // 0 and 1 are the ranks' reports, 2 and 3 their shares.
  std::vector<int> order = {0, 1, 2, 3};
  do {
    epoch_totals gathering(2, model::loss_kind::bce_logits);
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

TEST(Metrics, ARankBeyondTheTrainersIsRefused) {
  epoch_totals gathering(2, model::loss_kind::bce_logits);
  EXPECT_THROW(gathering.add(report_of(2, 1, 1, 1, {1}, false)), std::out_of_range);
  EXPECT_THROW(gathering.add(share_of(2, 1, 1, {}, {})), std::out_of_range);
}

TEST(Metrics, LossIsTheMeanOverSamplesAndSecondsAreTheSlowestRanks) {
  epoch_totals gathering(3, model::loss_kind::bce_logits);
  gathering.add(report_of(1, 100, 2.5, 50, {0.5, 0.75}, false));
  gathering.add(report_of(2, 20, 1.5, 40, {2, std::numeric_limits<double>::quiet_NaN()}, false));
  gathering.add(report_of(0, 80, 2, 60, {0.25, 1}, false));
  const auto summary = gathering.summary();
  EXPECT_EQ(summary.epoch, 4U);
  EXPECT_EQ(summary.step, 32U);
  EXPECT_EQ(summary.steps, 2U);
  EXPECT_EQ(summary.samples, 200U);
  EXPECT_EQ(summary.seconds, 2.5);
  EXPECT_EQ(summary.figures.loss, 0.75);
  EXPECT_FALSE(summary.figures.auc);
  EXPECT_FALSE(summary.figures.accuracy);
  EXPECT_FALSE(summary.figures.log_loss);
  EXPECT_FALSE(summary.figures.calibration);
  ASSERT_EQ(summary.losses.size(), 3U);
  EXPECT_EQ(summary.losses[0], (std::vector<double>{0.25, 1}));
  EXPECT_EQ(summary.losses[1], (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(summary.losses[2][0], 2);
  EXPECT_TRUE(std::isnan(summary.losses[2][1]));
}

// The combined area differs from both ranks' own: positives {0.9, 0.2}, negatives {0.5, 0.1, 0.2}; 4.5 of 6 pairs are
// in order.
TEST(Metrics, AucAndAccuracyAreOverTheTestRowsOfAllRanks) {
  epoch_totals gathering(2, model::loss_kind::bce_logits);
  for (const std::uint32_t rank : {0U, 1U}) gathering.add(report_of(rank, 10, 1, 1, {1}, true));
  gathering.add(share_of(1, 2, 1, {0.2F, 0.2F}, {1, 0}));
  gathering.add(share_of(0, 3, 2, {0.9F, 0.5F, 0.1F}, {1, 0, 0}));
  const auto summary = gathering.summary();
  ASSERT_TRUE(summary.figures.accuracy);
  EXPECT_EQ(*summary.figures.accuracy, 3.0 / 5);
  ASSERT_TRUE(summary.figures.auc);
  EXPECT_EQ(*summary.figures.auc, 4.5 / 6);
}

TEST(Metrics, ThereIsNoAucWithoutScoresOfBothClasses) {
  const std::vector<float> none;
  const std::vector<float> scores = {0.1F, 0.2F};
  const std::vector<float> ones = {1, 1};
  for (const auto& [given, labels] : {std::pair(none, none), std::pair(scores, ones)}) {
    epoch_totals gathering(1, model::loss_kind::bce_logits);
    gathering.add(report_of(0, 10, 1, 1, {1}, true));
    gathering.add(share_of(0, 2, 1, given, labels));
    const auto summary = gathering.summary();
    EXPECT_FALSE(summary.figures.auc);
    ASSERT_TRUE(summary.figures.accuracy);
    EXPECT_EQ(*summary.figures.accuracy, 0.5);
  }
}

TEST(Metrics, LogLossAndCalibrationAreOverTheTestRowsOfAllRanks) {
  epoch_totals gathering(2, model::loss_kind::bce_logits);
  for (const std::uint32_t rank : {0U, 1U}) gathering.add(report_of(rank, 10, 1, 1, {1}, true));
  gathering.add(share_of(1, 2, 1, {0.2F, 0.2F}, {1, 0}, 1.5, 1.25));
  gathering.add(share_of(0, 3, 2, {0.9F, 0.5F, 0.1F}, {1, 0, 0}, 1, 1.75));
  const auto summary = gathering.summary();
  EXPECT_EQ(summary.figures.log_loss, 2.5 / 5);
  EXPECT_EQ(summary.figures.calibration, 3.0 / 2);
}

TEST(Metrics, TestLossIsTheMeanOverTheTestRowsOfAllRanksAndRmseItsRootWithMse) {
  for (const model::loss_kind loss :
       {model::loss_kind::mse, model::loss_kind::bce_logits, model::loss_kind::cross_entropy}) {
    epoch_totals gathering(3, loss);
    for (const std::uint32_t rank : {0U, 1U, 2U}) gathering.add(report_of(rank, 10, 1, 1, {1}, true));
    gathering.add(share_of(2, 0, 0, {}, {}));  // has no test rows
    gathering.add(share_of(1, 0, 0, {}, {}, 0, 0, 2, 7));
    gathering.add(share_of(0, 0, 0, {}, {}, 0, 0, 3, 4.25));
    EXPECT_EQ(gathering.summary().figures.test_loss, 2.25);
    EXPECT_EQ(gathering.summary().figures.rmse, loss == model::loss_kind::mse ? std::optional(1.5) : std::nullopt);
  }
}

TEST(Metrics, ThereIsNoTestLossWithoutAnEvaluationOrATestRow) {
  for (const bool evaluates : {false, true}) {
    epoch_totals gathering(1, model::loss_kind::mse);
    gathering.add(report_of(0, 10, 1, 1, {1}, evaluates));
    if (evaluates) gathering.add(share_of(0, 0, 0, {}, {}));
    EXPECT_FALSE(gathering.summary().figures.test_loss);
    EXPECT_FALSE(gathering.summary().figures.rmse);
  }
}

// The sum of these three numbers depends on the order of the additions.
TEST(Metrics, DoNotDependOnTheOrderOfTheShares) {
  std::vector<std::uint32_t> order = {0, 1, 2};
  const std::vector<double> sums = {1e16, 1, 1};
  do {
    epoch_totals gathering(3, model::loss_kind::bce_logits);
    for (const std::uint32_t rank : order) {
      gathering.add(report_of(rank, 1, 1, 1, {1}, true));
      gathering.add(share_of(rank, 1, 1, {0.5F}, {1}, sums[rank], sums[rank], 1, sums[rank]));
    }
    EXPECT_EQ(gathering.summary().figures.log_loss, ((1e16 + 1) + 1) / 3);
    EXPECT_EQ(gathering.summary().figures.calibration, ((1e16 + 1) + 1) / 3);
    EXPECT_EQ(gathering.summary().figures.test_loss, ((1e16 + 1) + 1) / 3);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Metrics, AreAbsentWhereTheLossOrTheTargetsHaveNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  epoch_totals values(2, model::loss_kind::mse);  // mse of binary targets; rank 1 has no test rows
  for (const std::uint32_t rank : {0U, 1U}) values.add(report_of(rank, 10, 1, 1, {1}, true));
  values.add(share_of(0, 2, 1, {0.2F, 0.4F}, {0, 1}, nan, 0.6));
  values.add(share_of(1, 0, 0, {}, {}));
  EXPECT_EQ(values.summary().figures.accuracy, 0.5);
  EXPECT_FALSE(values.summary().figures.log_loss);
  EXPECT_EQ(values.summary().figures.calibration, 0.6);
  epoch_totals none(1, model::loss_kind::bce_logits);  // targets that are not classes
  none.add(report_of(0, 10, 1, 1, {1}, true));
  none.add(share_of(0, 0, 0, {}, {}));
  EXPECT_FALSE(none.summary().figures.accuracy);
  EXPECT_FALSE(none.summary().figures.log_loss);
  EXPECT_FALSE(none.summary().figures.calibration);
  EXPECT_FALSE(none.summary().figures.auc);
}

TEST(Metrics, SharesWithoutTheSumsOfTheJobsMetricsAreRefused) {
  const nn::own_metrics chosen = {std::make_shared<const nn::own_metric>(
      nn::own_metric{"mae", nn::loss_form::values, {.result = [](auto sums, auto /*rows*/) { return sums[0]; }}})};
  epoch_totals gathering(1, model::loss_kind::mse, chosen);
  gathering.add(report_of(0, 10, 1, 1, {1}, true));
  gathering.add(share_of(0, 0, 0, {}, {}, 0, 0, 2, 1));
  EXPECT_THROW(gathering.summary(), std::invalid_argument);
}

TEST(Metrics, OfAProgramHaveNoValueInAnEpochWithoutAnEvaluation) {
  const nn::own_metrics chosen = {
      std::make_shared<const nn::own_metric>(nn::own_metric{"mae", nn::loss_form::values, {}})};
  epoch_totals gathering(1, model::loss_kind::mse, chosen);
  gathering.add(report_of(0, 10, 1, 1, {1}, false));
  const auto own = gathering.summary().figures.own;
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(own.begin()->name(), "mae");
  EXPECT_EQ(own.begin()->value, std::nullopt);
}

}  // namespace
}  // namespace troupe::actors::metrics_test
