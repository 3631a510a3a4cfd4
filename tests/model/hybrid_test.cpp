// The dense side of the model: input columns and losses.

#include "model/hybrid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/device.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::model::hybrid_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

data_spec spec_of(std::size_t dense, const std::vector<std::size_t>& dims, std::size_t outputs) {
  data_spec spec;
  for (const std::size_t dim : dims) spec.tables.push_back({10, dim, kernels::pooling::sum, false});
  spec.dense_features = dense;
  spec.outputs = outputs;
  spec.binary_targets = outputs <= 2;
  return spec;
}

/// The loss, and in place of the outputs its gradient.
double loss_in_place(loss_kind kind, const batch& samples, std::vector<float>& outputs) {
  double loss = 0;
  loss_of(kind, outputs.size() / samples.size)(kernels::host_stream(), samples.size,
                                               {samples.classes.data(), samples.values.data()}, outputs.data(), &loss);
  return loss;
}

TEST(Hybrid, InputIsTheDenseFeaturesAndThenTheTablesInOrder) {
  const std::vector<std::size_t> hidden = {7, 6};
  const hybrid_model model(spec_of(3, {4, 1, 8}, 2), hidden);
  EXPECT_EQ(model.in_features(), 16U);
  EXPECT_EQ(model.column_of(0), 3U);
  EXPECT_EQ(model.column_of(1), 7U);
  EXPECT_EQ(model.column_of(2), 8U);
  EXPECT_EQ(model.out_features(), 2U);
  EXPECT_EQ(model.parameter_count(), 16U * 7 + 7 + 7 * 6 + 6 + 6 * 2 + 2);
  EXPECT_EQ(hybrid_model(spec_of(0, {4}, 1), std::vector<std::size_t>()).column_of(0), 0U);
  EXPECT_EQ(hybrid_model(spec_of(5, {}, 1), std::vector<std::size_t>()).in_features(), 5U);
}

TEST(Hybrid, EachLossReachesItsKernel) {
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
      double expected = 0;
      (kernels::host_stream().*kernel)(7, outputs, outputs_of_network.data(), targets, expected_grad.data(), &expected);
      auto in_place = outputs_of_network;
      EXPECT_EQ(loss_in_place(kind, samples, in_place), expected);
      EXPECT_TRUE(kernels::test::same_bits(in_place, expected_grad));
    };
    expect_loss(loss_kind::cross_entropy, &kernels::stream::softmax_cross_entropy, samples.classes.data());
    expect_loss(loss_kind::bce_logits, &kernels::stream::bce_with_logits, samples.values.data());
    expect_loss(loss_kind::mse, &kernels::stream::mean_squared_error, samples.values.data());
  }
}

// Two logits of 0 have the loss ln 2 whatever the target.
TEST(Hybrid, LossesAreMeansOverSamplesAndOutputs) {
  batch samples;
  samples.size = 2;
  samples.classes = {0, 1};
  samples.values = {1, 0, 1, 1};
  std::vector<float> zeros(4);
  EXPECT_NEAR(loss_in_place(loss_kind::cross_entropy, samples, zeros), std::log(2.0), 1e-7);
  EXPECT_EQ(zeros, (std::vector<float>{-0.25F, 0.25F, 0.25F, -0.25F}));
  zeros.assign(4, 0.0F);
  EXPECT_NEAR(loss_in_place(loss_kind::bce_logits, samples, zeros), std::log(2.0), 1e-7);
  EXPECT_EQ(zeros, (std::vector<float>{-0.125F, 0.125F, -0.125F, -0.125F}));
  zeros.assign(4, 0.0F);
  EXPECT_EQ(loss_in_place(loss_kind::mse, samples, zeros), 0.75);
  EXPECT_EQ(zeros, (std::vector<float>{-0.5F, 0, -0.5F, -0.5F}));
}

}  // namespace
}  // namespace troupe::model::hybrid_test
