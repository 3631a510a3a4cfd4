// Metrics of the test rows against closed forms, and against plain sums over rows and pairs in extended precision.

#include "model/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::model::metrics_test {
namespace {

using kernels::test::source_of_numbers;

constexpr float nan_float = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

data_spec spec_of(std::size_t outputs, bool binary) {
  data_spec spec;
  spec.outputs = outputs;
  spec.binary_targets = binary;
  return spec;
}

batch of_classes(std::vector<std::int64_t> classes) {
  batch samples;
  samples.size = classes.size();
  samples.classes = std::move(classes);
  return samples;
}

batch of_values(std::vector<float> values) {
  batch samples;
  samples.size = values.size();
  samples.values = std::move(values);
  return samples;
}

batch of_values_of_two(std::vector<float> values) {
  batch samples = of_values(std::move(values));
  samples.size /= 2;
  return samples;
}

predictions predicted(const data_spec& spec, loss_kind loss, const batch& samples, const std::vector<float>& outputs) {
  predictions p;
  predict(spec, loss, samples, outputs.data(), p);
  return p;
}

TEST(Metrics, PredictionsOfClassesAreThoseWithTheLargestOutput) {
  const auto two =
      predicted(spec_of(2, true), loss_kind::cross_entropy, of_classes({0, 1, 1, 0}), {3, 1, 1, 4, 2, -1, -5, -2});
  EXPECT_EQ(two.rows, 4U);
  EXPECT_EQ(two.correct, 2U);
  EXPECT_EQ(two.scores, (std::vector<float>{-2, 3, -3, 3}));
  EXPECT_EQ(two.labels, (std::vector<float>{0, 1, 1, 0}));
  const auto three = predicted(spec_of(3, false), loss_kind::cross_entropy, of_classes({2, 1, 0, 0}),
                               {1, 2, 3, 1, 2, 3, 3, 2, 1, -1, -2, -3});
  EXPECT_EQ(three.rows, 4U);
  EXPECT_EQ(three.correct, 3U);
  EXPECT_EQ(three.probability_sum, 0);
  EXPECT_TRUE(three.scores.empty());
  EXPECT_TRUE(three.labels.empty());
}

TEST(Metrics, PredictionsOfOneValueHaveTheThresholdOfTheirLoss) {
  const batch samples = of_values({1, 1, 1, 0});
  const std::vector<float> outputs = {0.4F, 0.4F, 0.6F, -0.1F};
  EXPECT_EQ(predicted(spec_of(1, true), loss_kind::bce_logits, samples, outputs).correct, 4U);
  predictions values = predicted(spec_of(1, true), loss_kind::mse, samples, outputs);
  EXPECT_EQ(values.correct, 2U);
  EXPECT_EQ(values.scores, outputs);
  EXPECT_EQ(values.labels, samples.values);
  predict(spec_of(1, true), loss_kind::mse, samples, outputs.data(), values);  // adds to the existing sums
  EXPECT_EQ(values.rows, 8U);
  EXPECT_EQ(values.correct, 4U);
  EXPECT_EQ(values.scores.size(), 8U);
}

TEST(Metrics, TargetsThatAreNoClassesAreNotCounted) {
  const auto values = predicted(spec_of(1, false), loss_kind::mse, of_values({1, 2, 7}), {0.5F, 2, 6});
  EXPECT_EQ(values.rows, 0U);
  EXPECT_EQ(values.correct, 0U);
  EXPECT_TRUE(values.scores.empty());
}

TEST(Metrics, LogLossOfKnownProbabilities) {
  // Outputs of 0: all classes are equally likely.
  for (const std::size_t classes : {2, 3, 10}) {
    const auto p = predicted(spec_of(classes, classes == 2), loss_kind::cross_entropy, of_classes({0, 1, 1}),
                             std::vector<float>(3 * classes, 0.0F));
    EXPECT_NEAR(p.log_loss_sum, 3 * std::log(static_cast<double>(classes)), 1e-14) << classes;
  }
  // Odds of 3 to 1 for the positive class: probabilities 3/4 and 1/4.
  const auto odds = static_cast<float>(std::log(3.0));
  const double error_of_odds = static_cast<double>(odds) - std::log(3.0);
  const double expected = -std::log(0.75) - std::log(0.25);
  const auto bce = predicted(spec_of(1, true), loss_kind::bce_logits, of_values({1, 0}), {odds, odds});
  EXPECT_NEAR(bce.log_loss_sum, expected + 0.5 * error_of_odds, 1e-14);
  EXPECT_NEAR(bce.probability_sum, 1.5, 1e-7);
  // Two classes with the same difference of outputs give the same prediction.
  const auto two = predicted(spec_of(2, true), loss_kind::cross_entropy, of_classes({1, 0}), {0, odds, 0, odds});
  EXPECT_NEAR(two.log_loss_sum, bce.log_loss_sum, 1e-14);
  EXPECT_NEAR(two.probability_sum, bce.probability_sum, 1e-14);
  EXPECT_TRUE(std::isnan(predicted(spec_of(1, true), loss_kind::mse, of_values({1}), {0.5F}).log_loss_sum));
}

TEST(Metrics, LogLossOfExtremeOutputsNeitherOverflowsNorVanishes) {
  const auto sure = predicted(spec_of(1, true), loss_kind::bce_logits, of_values({1, 0}), {1e38F, -1e38F});
  EXPECT_EQ(sure.log_loss_sum, 0);
  EXPECT_EQ(sure.probability_sum, 1);
  const auto wrong = predicted(spec_of(1, true), loss_kind::bce_logits, of_values({0, 1}), {1e38F, -1e38F});
  EXPECT_EQ(wrong.log_loss_sum, 2 * static_cast<double>(1e38F));
  const auto two = predicted(spec_of(2, true), loss_kind::cross_entropy, of_classes({0}), {-3e38F, 3e38F});
  EXPECT_EQ(two.log_loss_sum, 2 * static_cast<double>(3e38F));
  // -log(1 - e^-50), which 1 - p in float32 would round to 0.
  const auto small = predicted(spec_of(1, true), loss_kind::bce_logits, of_values({1}), {50});
  EXPECT_NEAR(small.log_loss_sum / std::exp(-50.0), 1, 1e-12);
}

TEST(Metrics, LogLossIsTheSumOverRowsOfMinusLogProbability) {
  source_of_numbers random(3);
  for (const std::size_t classes : {1, 2, 5}) {
    constexpr std::size_t rows = 300;
    const auto outputs = random.numbers(rows * classes);
    batch samples;
    samples.size = rows;
    long double log_loss = 0;
    long double probability_sum = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* out = outputs.data() + row * classes;
      const std::size_t target = random.below(classes == 1 ? 2 : classes);
      samples.classes.push_back(static_cast<std::int64_t>(target));
      samples.values.push_back(static_cast<float>(target));
      // A single output is the log-odds of class 1; class 0 then has the output 0.
      long double sum = classes == 1 ? 1 : 0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<long double>(out[c]));
      const auto probability = [&](std::size_t c) {
        const long double output = classes == 1 ? (c == 1 ? out[0] : 0.0F) : out[c];
        return std::exp(output) / sum;
      };
      log_loss -= std::log(probability(target));
      if (classes <= 2) probability_sum += probability(1);
    }
    const auto p = predicted(spec_of(classes, classes <= 2),
                             classes == 1 ? loss_kind::bce_logits : loss_kind::cross_entropy, samples, outputs);
    EXPECT_NEAR(p.log_loss_sum, static_cast<double>(log_loss), 1e-11) << classes;
    EXPECT_NEAR(p.probability_sum, static_cast<double>(probability_sum), 1e-11) << classes;
  }
}

TEST(Metrics, TheLossOfValuesIsTheMeanSquaredErrorWhateverTheyMean) {
  // Errors 0.5, 0 and -1.
  for (const bool binary : {false, true}) {
    const auto p = predicted(spec_of(1, binary), loss_kind::mse, of_values({1, 0, 1}), {0.5F, 0, 2});
    EXPECT_EQ(p.tested, 3U);
    EXPECT_EQ(p.loss_sum, 0.25 + 1);
  }
  // Two outputs per row: the means of 0.25 and 1, then of 4 and 0.
  const auto two = predicted(spec_of(2, false), loss_kind::mse, of_values_of_two({1, 2, 3, 4}), {0.5F, 3, 5, 4});
  EXPECT_EQ(two.tested, 2U);
  EXPECT_EQ(two.loss_sum, 0.625 + 2);
  // In double: the square would be infinite in float32.
  const auto large = predicted(spec_of(1, false), loss_kind::mse, of_values({0}), {1e30F});
  EXPECT_EQ(large.loss_sum, double{1e30F} * double{1e30F});
}

TEST(Metrics, TheLossOfClassesIsTheirLogLoss) {
  source_of_numbers random(5);
  for (const std::size_t classes : {1, 2, 5}) {
    const auto outputs = random.numbers(100 * classes);
    batch samples;
    samples.size = 100;
    for (std::size_t row = 0; row < samples.size; ++row) {
      samples.classes.push_back(static_cast<std::int64_t>(row % std::max<std::size_t>(classes, 2)));
      samples.values.push_back(static_cast<float>(row % 2));
    }
    const auto p = predicted(spec_of(classes, classes <= 2),
                             classes == 1 ? loss_kind::bce_logits : loss_kind::cross_entropy, samples, outputs);
    EXPECT_EQ(p.tested, 100U);
    EXPECT_GT(p.loss_sum, 0);
    EXPECT_EQ(p.loss_sum, p.log_loss_sum) << classes;
  }
  // Targets between the classes also have a loss: half of each class's.
  const auto odds = static_cast<float>(std::log(3.0));
  const auto between = predicted(spec_of(1, false), loss_kind::bce_logits, of_values({0.5F}), {odds});
  EXPECT_NEAR(between.loss_sum, -0.5 * std::log(0.75) - 0.5 * std::log(0.25), 1e-7);
}

TEST(Metrics, AnOutputThatIsNanReachesTheLogLoss) {
  EXPECT_TRUE(
      std::isnan(predicted(spec_of(1, true), loss_kind::bce_logits, of_values({1, 0}), {nan_float, 1}).log_loss_sum));
  EXPECT_TRUE(
      std::isnan(predicted(spec_of(2, true), loss_kind::cross_entropy, of_classes({0}), {1, nan_float}).log_loss_sum));
  EXPECT_TRUE(
      std::isnan(predicted(spec_of(2, true), loss_kind::cross_entropy, of_classes({0}), {nan_float, 1}).log_loss_sum));
}

TEST(Metrics, CalibrationIsTheMeanProbabilityOverTheShareOfPositives) {
  // Mean probability 0.6 over 5 rows, 2 of them positive: 0.6 / 0.4.
  EXPECT_DOUBLE_EQ(calibration(3, std::vector<float>{0, 1, 0, 1, 0}), 1.5);
  EXPECT_EQ(calibration(2, std::vector<float>{1, 1}), 1);
  EXPECT_TRUE(std::isnan(calibration(0.5, std::vector<float>{0, 0, 0})));
  EXPECT_TRUE(std::isnan(calibration(0, {})));
  EXPECT_TRUE(std::isnan(calibration(std::numeric_limits<double>::quiet_NaN(), std::vector<float>{1})));
}

/// The share of pairs of a positive and a negative row in which the positive one scores higher; ties count half.
double share_of_pairs(const std::vector<float>& scores, const std::vector<float>& labels) {
  double pairs = 0;
  double wins = 0;
  for (std::size_t p = 0; p < scores.size(); ++p) {
    for (std::size_t n = 0; n < scores.size(); ++n) {
      if (labels[p] != 1 || labels[n] != 0) continue;
      pairs += 1;
      wins += scores[p] > scores[n] ? 1 : scores[p] == scores[n] ? 0.5 : 0;
    }
  }
  return wins / pairs;
}

TEST(Metrics, AreaUnderCurveIsTheShareOfPairsInOrder) {
  source_of_numbers random(2);
  for (const std::size_t levels : {2, 3, 10, 1000, 1 << 30}) {
    for (const std::size_t count : {2, 3, 10, 101, 400}) {
      std::vector<float> scores(count);
      std::vector<float> labels(count);
      for (std::size_t i = 0; i < count; ++i) {
        labels[i] = static_cast<float>(random.below(4) == 0);
        scores[i] = static_cast<float>(random.below(levels)) + 0.3F * labels[i] * static_cast<float>(levels > 3);
      }
      labels[0] = 1;
      labels[1] = 0;
      EXPECT_EQ(area_under_curve(scores, labels), share_of_pairs(scores, labels)) << levels << ", " << count;
    }
  }
}

TEST(Metrics, AreaUnderCurveOfKnownOrders) {
  const std::vector<float> labels = {0, 0, 1, 1};
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 2, 3, 4}, labels), 1);
  EXPECT_EQ(area_under_curve(std::vector<float>{4, 3, 2, 1}, labels), 0);
  EXPECT_EQ(area_under_curve(std::vector<float>{7, 7, 7, 7}, labels), 0.5);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 3, 2, 4}, labels), 0.75);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 2, 2, 3}, labels), 0.875);
  EXPECT_EQ(area_under_curve(std::vector<float>{-inf, 0.0F, -0.0F, inf}, labels), 0.875);
}

TEST(Metrics, AreaUnderCurveOfOneClassOrWithNanIsNan) {
  const std::vector<float> scores = {1, 2, 3};
  EXPECT_TRUE(std::isnan(area_under_curve(scores, std::vector<float>{1, 1, 1})));
  EXPECT_TRUE(std::isnan(area_under_curve(scores, std::vector<float>{0, 0, 0})));
  EXPECT_TRUE(std::isnan(area_under_curve({}, {})));
  for (std::size_t at = 0; at < 3; ++at) {
    auto with_nan = scores;
    with_nan[at] = nan_float;
    EXPECT_TRUE(std::isnan(area_under_curve(with_nan, std::vector<float>{0, 1, 1}))) << at;
  }
}

}  // namespace
}  // namespace troupe::model::metrics_test
