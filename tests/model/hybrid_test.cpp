// The dense side of the model: input columns, layers and losses.

#include "model/hybrid.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/device.hpp"
#include "model/loss.hpp"
#include "model/network_rows.hpp"
#include "model/random.hpp"
#include "nn/samples.hpp"
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

/// Returns the loss, and overwrites the outputs with its gradient.
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
  const network whole = as_network(model);
  EXPECT_EQ(whole.in_features(), 16U);
  EXPECT_EQ(whole.out_features(), 2U);
  EXPECT_EQ(whole.parameter_count(), 16U * 7 + 7 + 7 * 6 + 6 + 6 * 2 + 2);
  EXPECT_EQ(whole.multiply_adds(), 16U * 7 + 7 * 6 + 6 * 2);
  EXPECT_EQ(whole.numbers_per_sample(), 2U * (16 + 7 + 6 + 2)) << "and their gradients";
  EXPECT_EQ(hybrid_model(spec_of(0, {4}, 1), std::vector<std::size_t>()).column_of(0), 0U);
  EXPECT_EQ(hybrid_model(spec_of(5, {}, 1), std::vector<std::size_t>()).in_features(), 5U);
}

TEST(Hybrid, LayersBeginByTheSeedAndTheirNumbers) {
  const hybrid_model model(spec_of(3, {4}, 2), std::vector<std::size_t>{6, 5});
  const auto numbers = nn::initial_numbers(model, 9).parameters;
  std::size_t first = 0;
  for (const auto& [layer, in, out] : {std::tuple(0, 7, 6), std::tuple(2, 6, 5), std::tuple(4, 5, 2)}) {
    const auto key = random_key(9, random_stream::dense_weights, static_cast<std::uint64_t>(layer), 0);
    const auto expected = nn::initial_numbers(nn::linear(in, out), key).parameters;
    EXPECT_TRUE(same_bits(std::span(numbers).subspan(first, expected.size()), expected)) << layer;
    first += expected.size();
  }
  EXPECT_EQ(first, numbers.size());
}

TEST(Hybrid, RowsAreOneForEachLayer) {
  data_spec spec;
  spec.image = {1, 5, 6};
  spec.dense_features = 30;
  spec.outputs = 1;
  job what;
  what.layers = nn::parse_layers(R"([{"kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
      {"kind": "flatten"}, {"kind": "linear", "out": 2}, {"kind": "relu"}, {"kind": "linear", "out": 1}])")
                    .value();
  const auto rows = network_rows(what, spec);
  ASSERT_EQ(rows.size(), 5U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].number, i);
    EXPECT_EQ(rows[i].part, "top");
  }
  EXPECT_EQ(rows[0].kind, "conv2d");
  EXPECT_EQ(rows[0].options, "out_channels 4, kernel 3, padding 1");
  EXPECT_EQ(nn::lengths_text(rows[0].in), "1 x 5 x 6");
  EXPECT_EQ(nn::lengths_text(rows[0].out), "4 x 5 x 6");
  EXPECT_EQ(rows[0].parameters, 40U);
  EXPECT_EQ(rows[0].multiply_adds, 4U * 9 * 30);
  EXPECT_EQ(rows[1].kind, "flatten");
  EXPECT_EQ(rows[2].parameters, 242U);
  EXPECT_EQ(rows[3].kind, "relu");
  EXPECT_EQ(rows[3].parameters, 0U);
  EXPECT_EQ(as_network(hybrid_model(spec, what)).multiply_adds(), 4U * 9 * 30 + 240 + 2);
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

// Two logits of 0 have the loss ln 2 for every target.
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
