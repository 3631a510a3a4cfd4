// The dense side of the model: input columns, losses, predictions and the area under the curve.

#include "model/hybrid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/loss.hpp"
#include "tests/kernels/support.hpp"

namespace troupe {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr float nan_float = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

data_spec spec_of(std::size_t dense, const std::vector<std::size_t>& dims, std::size_t outputs) {
  data_spec spec;
  for (const std::size_t dim : dims) spec.tables.push_back({10, dim, kernels::pooling::sum, false});
  spec.dense_features = dense;
  spec.outputs = outputs;
  spec.binary_targets = outputs <= 2;
  return spec;
}

hybrid_model model_of(std::size_t outputs, loss_kind loss) { return {spec_of(2, {}, outputs), {}, loss}; }

TEST(hybrid, input_is_the_dense_features_and_then_the_tables_in_order) {
  const std::vector<std::size_t> hidden = {7, 6};
  const hybrid_model model(spec_of(3, {4, 1, 8}, 2), hidden, loss_kind::cross_entropy);
  EXPECT_EQ(model.in_features(), 16U);
  EXPECT_EQ(model.column_of(0), 3U);
  EXPECT_EQ(model.column_of(1), 7U);
  EXPECT_EQ(model.column_of(2), 8U);
  EXPECT_EQ(model.out_features(), 2U);
  EXPECT_EQ(model.parameter_count(), 16U * 7 + 7 + 7 * 6 + 6 + 6 * 2 + 2);
  EXPECT_EQ(hybrid_model(spec_of(0, {4}, 1), {}, loss_kind::mse).column_of(0), 0U);
  EXPECT_EQ(hybrid_model(spec_of(5, {}, 1), {}, loss_kind::mse).in_features(), 5U);
}

TEST(hybrid, dense_features_go_to_their_columns_and_nowhere_else) {
  const hybrid_model model(spec_of(2, {3}, 1), {}, loss_kind::mse);
  batch samples;
  samples.size = 3;
  samples.dense = {1, 2, 3, 4, 5, 6};
  std::vector<float> input(3 * 5, -1.0F);
  model.place_dense(samples, input.data());
  EXPECT_EQ(input, (std::vector<float>{1, 2, -1, -1, -1, 3, 4, -1, -1, -1, 5, 6, -1, -1, -1}));
  const hybrid_model sparse(spec_of(0, {3}, 1), {}, loss_kind::mse);
  samples.dense.clear();
  std::vector<float> untouched(9, -1.0F);
  sparse.place_dense(samples, untouched.data());
  EXPECT_EQ(untouched, std::vector<float>(9, -1.0F));
}

TEST(hybrid, each_loss_reaches_its_kernel) {
  source_of_numbers random(1);
  for (const std::size_t outputs : {1, 2, 5}) {
    batch samples;
    samples.size = 7;
    for (std::size_t i = 0; i < samples.size; ++i)
      samples.classes.push_back(static_cast<std::int64_t>(random.below(outputs)));
    for (std::size_t i = 0; i < samples.size * outputs; ++i)
      samples.values.push_back(static_cast<float>(random.below(2)));
    const auto outputs_of_network = random.numbers(7 * outputs);
    const auto expect_loss = [&](loss_kind kind, const auto& kernel, const auto* targets) {
      std::vector<float> expected_grad(7 * outputs);
      const double expected = kernel(7, outputs, outputs_of_network.data(), targets, expected_grad.data());
      auto in_place = outputs_of_network;
      EXPECT_EQ(model_of(outputs, kind).loss(samples, in_place.data()), expected);
      EXPECT_TRUE(same_bits(in_place, expected_grad));
    };
    expect_loss(loss_kind::cross_entropy, kernels::softmax_cross_entropy, samples.classes.data());
    expect_loss(loss_kind::bce_logits, kernels::bce_with_logits, samples.values.data());
    expect_loss(loss_kind::mse, kernels::mean_squared_error, samples.values.data());
  }
}

// Two logits of 0 have the loss ln 2 whatever the target.
TEST(hybrid, losses_are_means_over_samples_and_outputs) {
  batch samples;
  samples.size = 2;
  samples.classes = {0, 1};
  samples.values = {1, 0, 1, 1};
  std::vector<float> zeros(4);
  EXPECT_NEAR(model_of(2, loss_kind::cross_entropy).loss(samples, zeros.data()), std::log(2.0), 1e-7);
  EXPECT_EQ(zeros, (std::vector<float>{-0.25F, 0.25F, 0.25F, -0.25F}));
  zeros.assign(4, 0.0F);
  EXPECT_NEAR(model_of(2, loss_kind::bce_logits).loss(samples, zeros.data()), std::log(2.0), 1e-7);
  EXPECT_EQ(zeros, (std::vector<float>{-0.125F, 0.125F, -0.125F, -0.125F}));
  zeros.assign(4, 0.0F);
  EXPECT_EQ(model_of(2, loss_kind::mse).loss(samples, zeros.data()), 0.75);
  EXPECT_EQ(zeros, (std::vector<float>{-0.5F, 0, -0.5F, -0.5F}));
}

TEST(hybrid, whether_targets_are_binary_is_for_the_data_to_say) {
  data_spec spec = spec_of(2, {}, 1);
  EXPECT_TRUE(hybrid_model(spec, {}, loss_kind::mse).is_binary());
  spec.binary_targets = false;  // a class number as one value
  EXPECT_FALSE(hybrid_model(spec, {}, loss_kind::mse).is_binary());
}

TEST(hybrid, predictions_of_classes_are_those_with_the_largest_output) {
  batch samples;
  samples.size = 4;
  samples.classes = {0, 1, 1, 0};
  const std::vector<float> two = {3, 1, 1, 4, 2, -1, -5, -2};
  hybrid_model::predictions p;
  model_of(2, loss_kind::cross_entropy).predict(samples, two.data(), p);
  EXPECT_EQ(p.correct, 2U);
  EXPECT_EQ(p.scores, (std::vector<float>{-2, 3, -3, 3}));
  EXPECT_EQ(p.labels, (std::vector<float>{0, 1, 1, 0}));
  samples.classes = {2, 1, 0, 0};
  const std::vector<float> three = {1, 2, 3, 1, 2, 3, 3, 2, 1, -1, -2, -3};
  hybrid_model::predictions of_three;
  model_of(3, loss_kind::cross_entropy).predict(samples, three.data(), of_three);
  EXPECT_EQ(of_three.correct, 3U);
  EXPECT_TRUE(of_three.scores.empty());
  EXPECT_TRUE(of_three.labels.empty());
}

TEST(hybrid, predictions_of_one_value_have_the_threshold_of_their_loss) {
  batch samples;
  samples.size = 4;
  samples.values = {1, 1, 1, 0};
  const std::vector<float> outputs = {0.4F, 0.4F, 0.6F, -0.1F};
  hybrid_model::predictions logits;
  model_of(1, loss_kind::bce_logits).predict(samples, outputs.data(), logits);
  EXPECT_EQ(logits.correct, 4U);
  hybrid_model::predictions values;
  const auto mse = model_of(1, loss_kind::mse);
  mse.predict(samples, outputs.data(), values);
  EXPECT_EQ(values.correct, 2U);
  EXPECT_EQ(values.scores, outputs);
  EXPECT_EQ(values.labels, samples.values);
  mse.predict(samples, outputs.data(), values);  // adds to what is there
  EXPECT_EQ(values.correct, 4U);
  EXPECT_EQ(values.scores.size(), 8U);
}

/// The share of pairs of a positive and a negative row in which the positive one scores higher, ties half.
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

TEST(hybrid, area_under_curve_is_the_share_of_pairs_in_order) {
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

TEST(hybrid, area_under_curve_of_known_orders) {
  const std::vector<float> labels = {0, 0, 1, 1};
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 2, 3, 4}, labels), 1);
  EXPECT_EQ(area_under_curve(std::vector<float>{4, 3, 2, 1}, labels), 0);
  EXPECT_EQ(area_under_curve(std::vector<float>{7, 7, 7, 7}, labels), 0.5);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 3, 2, 4}, labels), 0.75);
  EXPECT_EQ(area_under_curve(std::vector<float>{1, 2, 2, 3}, labels), 0.875);
  EXPECT_EQ(area_under_curve(std::vector<float>{-inf, 0.0F, -0.0F, inf}, labels), 0.875);
}

TEST(hybrid, area_under_curve_of_one_class_or_with_nan_is_nan) {
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
}  // namespace troupe
