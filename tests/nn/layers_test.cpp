// Each layer compared with its formula in double and central differences; the numbers that layers save and draw; and
// errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/nn/layer_checks.hpp"

namespace troupe::nn::layers_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;
using model::expect_near;
using model::in_double;

constexpr std::uint64_t key = 77;

// Sizes on both sides of vector widths, with edges that windows leave out, and each option at least once.
const std::vector<layer_case> layer_cases{
    {R"({"kind": "linear", "out": 5})", {7}},
    {R"({"kind": "linear", "out": 17, "bias": false})", {9}},
    {R"({"kind": "relu"})", {2, 3, 5}},
    {R"({"kind": "gelu"})", {19}},
    {R"({"kind": "flatten"})", {2, 3, 3}},
    {R"({"kind": "dropout", "rate": 0.3})", {23}},
    {R"({"kind": "dropout", "rate": 0.5})", {2, 3, 3}},
    {R"({"kind": "dropout", "rate": 0})", {5}},
    {R"({"kind": "conv2d", "out_channels": 3, "kernel": 3})", {2, 5, 4}},
    {R"({"kind": "conv2d", "out_channels": 4, "kernel": 1, "bias": false})", {3, 2, 3}},
    {R"({"kind": "conv2d", "out_channels": 2, "kernel": 3, "stride": 2, "padding": 1})", {1, 6, 7}},
    {R"({"kind": "conv2d", "out_channels": 2, "kernel": 2, "stride": 3, "padding": 2, "bias": false})", {2, 4, 5}},
    {R"({"kind": "max_pool2d", "kernel": 2})", {2, 5, 4}},
    {R"({"kind": "max_pool2d", "kernel": 3, "stride": 1})", {1, 5, 4}},
    {R"({"kind": "avg_pool2d", "kernel": 2})", {2, 4, 5}},
    {R"({"kind": "avg_pool2d", "kernel": 3, "stride": 2})", {2, 7, 6}},
    {R"({"kind": "global_avg_pool2d"})", {3, 4, 5}},
    {R"({"kind": "batch_norm"})", {6}},
    {R"({"kind": "batch_norm", "eps": 0.1, "scale": false})", {5}},
    {R"({"kind": "batch_norm", "eps": 0.01})", {3, 2, 3}},
    {R"({"kind": "batch_norm", "scale": false})", {2, 3, 3}},
    {R"({"kind": "layer_norm"})", {11}},
    {R"({"kind": "layer_norm", "eps": 0.1})", {33}},
    {R"({"kind": "low_rank_cross", "rank": 2, "layers": 1})", {5}},
    {R"({"kind": "low_rank_cross", "rank": 3, "layers": 3})", {7}},
    {R"({"kind": "lstm", "hidden": 3})", {4, 2}},
    {R"({"kind": "lstm", "hidden": 1, "last": true})", {1, 1}},
    {R"({"kind": "lstm", "hidden": 8, "last": true})", {1, 3, 5}},
    {R"({"kind": "lstm", "hidden": 5, "steps": 2})", {6}},
    {R"({"kind": "residual", "layers": [{"kind": "lstm", "hidden": 3}, {"kind": "gelu"}]})", {4, 3}},
    {R"({"kind": "residual", "layers": [{"kind": "linear", "out": 4}]})", {4}},
    {R"({"kind": "residual", "layers": [{"kind": "gelu"}]})", {2, 2, 3}},
    {R"({"kind": "residual", "layers": [{"kind": "linear", "out": 9}, {"kind": "batch_norm"}, {"kind": "relu"},
         {"kind": "dropout", "rate": 0.4}, {"kind": "linear", "out": 6, "bias": false}, {"kind": "batch_norm"}]})",
     {6}},
    {R"({"kind": "residual", "layers": [{"kind": "relu"}, {"kind": "residual", "layers": [
         {"kind": "dropout", "rate": 0.25}, {"kind": "linear", "out": 5}, {"kind": "layer_norm"}]}]})",
     {5}},
    {R"({"kind": "linear", "out": 5})", {3, 4}},
    {R"({"kind": "conv2d", "out_channels": 3, "kernel": 2, "dilation": 3, "padding": 1})", {2, 5, 4}},
    {R"({"kind": "conv2d", "out_channels": 6, "kernel": 3, "groups": 2, "bias": false})", {4, 4, 5}},
    {R"({"kind": "conv2d", "out_channels": 3, "kernel": 3, "groups": 3, "stride": 2, "padding": 2, "dilation": 2})",
     {3, 5, 4}},
    {R"({"kind": "layer_norm"})", {3, 6}},
    {R"({"kind": "residual", "layers": [{"kind": "layer_norm", "eps": 0.1}, {"kind": "linear", "out": 9},
         {"kind": "relu"}, {"kind": "linear", "out": 5}]})",
     {3, 5}},
};

TEST(Layers, ForwardIsTheFormulaAndGradientsAreCentralDifferences) {
  source_of_numbers random(1);
  for (const layer_case& one : layer_cases) {
    const layer_spec spec = spec_of(one.json);
    // With two close numbers, eps apart, the inverse deviation is large, and so is rounding.
    const layer_check check{
        .formula = [&](const auto& x, const double*& at) { return reference_layer(spec, x, at, key); },
        .gradient_tolerance = 2e-3,
        .is_of_each = true};
    for (const std::size_t size : {2, 3, 5}) expect_layer(kernels::host_stream(), random, one, size, check);
  }
}

TEST(Layers, EvaluationDropsNothing) {
  source_of_numbers random(2);
  for (const auto& [json, in] : layer_cases) {
    const auto made = layer_of(json, in);
    if (made->type() != "dropout") continue;
    passes p(*made, batch_of(4, in), random.numbers(4 * in.count()));
    p.how.training = false;
    EXPECT_TRUE(same_bits(p.forward(), p.x)) << json;
  }
}

TEST(Layers, RunningStatisticsFollowTheBatchesWithTheUnbiasedVariance) {
  source_of_numbers random(3);
  for (const troupe::shape& in : {troupe::shape(3), troupe::shape(3, 2, 2)}) {
    const auto made = layer_of(R"({"kind": "batch_norm", "momentum": 0.25, "eps": 0.01})", in);
    const std::size_t area = in.count() / 3;
    ASSERT_EQ(placed(made->buffers()), (std::vector<parameter>{{"running_mean", {3}, 0}, {"running_var", {3}, 3}}));
    passes p(*made, batch_of(5, in), random.numbers(5 * in.count()));
    EXPECT_EQ(p.buffers.get(), (std::vector<float>{0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(p.parameters, (std::vector<float>{1, 1, 1, 0, 0, 0}));
    std::vector<double> expected = in_double(p.buffers.get());
    for (int batch = 0; batch < 3; ++batch) {
      p.x = random.numbers(p.x.size());
      p.forward();
      const reference_batch x{in, 5, in_double(p.x)};
      const auto count = static_cast<double>(5 * area);
      for (std::size_t c = 0; c < 3; ++c) {
        const auto of = moments_of_channel(x, c);
        expected[c] = 0.75 * expected[c] + 0.25 * of.mean;
        expected[3 + c] = 0.75 * expected[3 + c] + 0.25 * of.variance * count / (count - 1);
      }
      expect_near(p.buffers.get(), expected, 1e-6);
    }
    // Evaluation normalizes by the running statistics.
    p.how.training = false;
    std::vector<double> y;
    for (std::size_t i = 0; i < p.x.size(); ++i) {
      const std::size_t c = i / area % 3;
      y.push_back((static_cast<double>(p.x[i]) - expected[c]) / std::sqrt(expected[3 + c] + 0.01));
    }
    expect_near(p.forward(), y, 1e-5);
  }
}

TEST(Layers, OfOneNumberTheRunningVarianceIsThatOfTheBatch) {
  const auto made = layer_of(R"({"kind": "batch_norm", "momentum": 0.5})", {2});
  passes p(*made, {1, 2}, {4, -2});
  EXPECT_EQ(p.forward(), (std::vector<float>{0, 0}));
  EXPECT_EQ(p.buffers.get(), (std::vector<float>{2, -1, 0.5F, 0.5F}));
}

TEST(Layers, DropoutDropsTheSameOfASampleHoweverTheBatchIsCut) {
  source_of_numbers random(4);
  const dropout made(0.3);
  passes whole(made, {9, 37}, random.numbers(9 * 37));
  const auto y = whole.forward();
  const auto dropped = std::ranges::count(y, 0.0F);
  EXPECT_NEAR(static_cast<double>(dropped) / (9 * 37), 0.3, 0.1);
  for (const std::size_t first : {1, 4, 8}) {
    passes part(made, {9 - first, 37}, {whole.x.begin() + static_cast<std::ptrdiff_t>(first * 37), whole.x.end()});
    part.how.first_sample = first;
    const auto part_y = part.forward();
    EXPECT_TRUE(same_bits(part_y, std::span(y).subspan(first * 37))) << first;
    const auto grad_x = part.backward(std::vector<float>(part.x.size(), 1.0F)).x;
    for (std::size_t i = 0; i < grad_x.size(); ++i) ASSERT_EQ(grad_x[i] == 0, part_y[i] == 0) << i;
  }
}

TEST(Layers, OnlyDroppingNeedsAKeyAndOnlyWhatDropsNothingOrFlattensKeepsTheNumbers) {
  for (const auto& [json, in] : layer_cases) {
    const bool drops = json.find("dropout") != std::string::npos && json.find("\"rate\": 0}") == std::string::npos;
    const auto made = layer_of(json, in);
    EXPECT_EQ(made->uses_key(), drops) << json;
    EXPECT_EQ(made->is_identity(), made->type() == "flatten" || (made->type() == "dropout" && !drops)) << json;
  }
}

TEST(Layers, InitialWeightsAreUniformByTheNumberOfInputs) {
  // For each layer: JSON, input shape, and its tensors' names, shapes, fan-in (0 for a constant) and constants.
  struct tensor_start {
    std::string name;
    troupe::shape shape;
    std::size_t fan_in;
    float constant;
  };
  const std::vector<std::tuple<std::string, troupe::shape, std::vector<tensor_start>>> cases{
      {R"({"kind": "linear", "out": 5})", {7}, {{"weight", {5, 7}, 7, 0}, {"bias", {5}, 7, 0}}},
      {R"({"kind": "linear", "out": 5, "bias": false})", {7}, {{"weight", {5, 7}, 7, 0}}},
      {R"({"kind": "conv2d", "out_channels": 4, "kernel": 3})",
       {2, 5, 5},
       {{"weight", {4, 2, 3, 3}, 18, 0}, {"bias", {4}, 18, 0}}},
      {R"({"kind": "conv2d", "out_channels": 4, "kernel": 3, "groups": 2})",
       {6, 5, 5},
       {{"weight", {4, 3, 3, 3}, 27, 0}, {"bias", {4}, 27, 0}}},
      {R"({"kind": "layer_norm"})", {3}, {{"weight", {3}, 0, 1}, {"bias", {3}, 0, 0}}},
      {R"({"kind": "batch_norm", "scale": false})", {3}, {{"bias", {3}, 0, 0}}},
      {R"({"kind": "lstm", "hidden": 3})",
       {2, 5},
       {{"weight_ih_l0", {12, 5}, 3, 0},
        {"weight_hh_l0", {12, 3}, 3, 0},
        {"bias_ih_l0", {12}, 3, 0},
        {"bias_hh_l0", {12}, 3, 0}}},
      {R"({"kind": "low_rank_cross", "rank": 2, "layers": 2})",
       {6},
       {{"v.0", {2, 6}, 6, 0},
        {"w.0", {6, 2}, 2, 0},
        {"b.0", {6}, 0, 0},
        {"v.1", {2, 6}, 6, 0},
        {"w.1", {6, 2}, 2, 0},
        {"b.1", {6}, 0, 0}}},
  };
  for (const auto& [json, in, tensors] : cases) {
    SCOPED_TRACE(json);
    const auto made = layer_of(json, in);
    const auto parameters = initial_numbers(*made, key).parameters;
    const auto named = placed(made->parameters());
    ASSERT_EQ(named.size(), tensors.size());
    std::size_t first = 0;
    for (std::size_t t = 0; t < named.size(); ++t) {
      EXPECT_EQ(named[t], (parameter{tensors[t].name, tensors[t].shape, first}));
      const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(tensors[t].fan_in)));
      for (const std::size_t end = first + named[t].count(); first < end; ++first)
        EXPECT_EQ(parameters[first],
                  tensors[t].fan_in > 0 ? kernels::uniform(key, first, -bound, bound) : tensors[t].constant)
            << named[t].name;
    }
    EXPECT_EQ(first, parameters.size());
  }
}

TEST(Layers, AResidualHasItsLayersTensorsByTheirNumbers) {
  const std::string json = R"({"kind": "residual", "layers": [{"kind": "batch_norm"}, {"kind": "relu"},
      {"kind": "linear", "out": 3}, {"kind": "batch_norm", "scale": false}]})";
  const auto made = layer_of(json, {3});
  using tensors = std::vector<parameter>;
  EXPECT_EQ(placed(made->parameters()), (tensors{{"0.weight", {3}, 0},
                                                 {"0.bias", {3}, 3},
                                                 {"2.weight", {3, 3}, 6},
                                                 {"2.bias", {3}, 15},
                                                 {"3.bias", {3}, 18}}));
  EXPECT_EQ(placed(made->buffers()), (tensors{{"0.running_mean", {3}, 0},
                                              {"0.running_var", {3}, 3},
                                              {"3.running_mean", {3}, 6},
                                              {"3.running_var", {3}, 9}}));
  source_of_numbers random(5);
  passes p(*made, {4, 3}, random.numbers(12));
  const auto bound = static_cast<float>(1 / std::sqrt(3.0));
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_EQ(p.parameters[6 + i], kernels::uniform(kernels::random_bits(key, 1 + 2), i, -bound, bound)) << i;
  p.forward();
  // Both of its batch norms are updated, each from its own inputs.
  const reference_batch x{{3}, 4, in_double(p.x)};
  const auto buffers = p.buffers.get();
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(static_cast<double>(buffers[c]), 0.1 * moments_of_channel(x, c).mean, 1e-6);
    EXPECT_NE(buffers[6 + c], 0.0F);
    EXPECT_NE(buffers[9 + c], 1.0F);
  }
}

TEST(Layers, MultiplyAddsAreThoseOfTheProductsOfAllSamples) {
  const auto count_of = [](const std::string& json, const troupe::shape& in) {
    const auto made = layer_of(json, in);
    EXPECT_EQ(made->multiply_adds(batch_of(3, in)), 3 * made->multiply_adds(batch_of(1, in))) << json;
    return made->multiply_adds(batch_of(1, in));
  };
  EXPECT_EQ(count_of(R"({"kind": "linear", "out": 5})", {7}), 35U);
  EXPECT_EQ(count_of(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1, "stride": 2})", {2, 6, 8}),
            4U * 2 * 9 * 3 * 4);
  EXPECT_EQ(count_of(R"({"kind": "conv2d", "out_channels": 4, "kernel": 2, "dilation": 2, "groups": 2})", {2, 5, 5}),
            4U * 4 * 3 * 3);
  EXPECT_EQ(count_of(R"({"kind": "low_rank_cross", "rank": 2, "layers": 3})", {5}), 60U);
  EXPECT_EQ(
      count_of(R"({"kind": "residual", "layers": [{"kind": "linear", "out": 2}, {"kind": "linear", "out": 3}]})", {3}),
      12U);
  EXPECT_EQ(count_of(R"({"kind": "linear", "out": 5})", {3, 7}), 105U);
  EXPECT_EQ(count_of(R"({"kind": "gelu"})", {3}), 0U);
  EXPECT_EQ(count_of(R"({"kind": "lstm", "hidden": 3, "last": true})", {5, 2}), 5U * 12 * (2 + 3));
}

// Error texts with the layer's name; for mistakes in job files see layer_spec_test.cpp.
TEST(Layers, BatchesThatALayerIsNotMadeForAreRefused) {
  const auto refusal = [](const module& of, const tensor_view& input) { return refusal_of([&] { of.output(input); }); };
  using troupe::shape;
  EXPECT_EQ(refusal(linear(3, 2), shape(4, 5)),
            "linear: takes [n, 3] of float32 with n at least 1, not [4, 5] of float32");
  EXPECT_EQ(refusal(linear(3, 2), shape(0, 3)),
            "linear: takes [n, 3] of float32 with n at least 1, not [0, 3] of float32");
  EXPECT_EQ(refusal(linear(3, 2), shape(4, 3, 5)),
            "linear: is made for steps of 3 features, and its input is a sequence of 3 x 5");
  EXPECT_EQ(refusal(linear(3, 65536), shape(1, 65536, 3)),
            "linear: its output of 65536 x 65536 has more than 2147483647 numbers a sample; take a smaller out");
  EXPECT_EQ(refusal(layer_norm(3), shape(4, 3, 5)),
            "layer_norm: is made for steps of 3 features, and its input is a sequence of 3 x 5");
  EXPECT_EQ(refusal(layer_norm(3), shape(4, 5)), "layer_norm: is made for 3 features, and its input has 5 features");
  EXPECT_EQ(refusal(low_rank_cross(3, 2, 1), shape(4, 5)),
            "low_rank_cross: is made for 3 features, and its input has 5 features");
  EXPECT_EQ(refusal(batch_norm({.channels = 3}), shape(4, 5)),
            "batch_norm: is made for 3 channels, and its input has 5 features");
  EXPECT_EQ(refusal(conv2d({.in_channels = 3, .out_channels = 2, .kernel = 1}), shape(4, 2, 5, 5)),
            "conv2d: is made for images of 3 channels, and its input is an image of 2 x 5 x 5");
  EXPECT_EQ(refusal_of([] { conv2d({.in_channels = 6, .out_channels = 8, .kernel = 1, .groups = 3}); }),
            "conv2d: groups 3: must be a whole number between 1 and 65536 that divides the channels of input and "
            "output (6 and "
            "8)");
  EXPECT_EQ(refusal(lstm({.features = 3, .hidden = 2}), shape(4, 5, 2)),
            "lstm: is made for steps of 3 features, and its input is a sequence of 5 x 2");
  EXPECT_EQ(refusal(flatten(), shape(4)),
            "flatten: takes [n, features], [n, steps, features] or [n, channels, height, width] of float32, each at "
            "least 1, not [4] of float32");
  EXPECT_EQ(refusal(gelu(), {shape(2, 3), nullptr, dtype::i64}),
            "gelu: takes float32, at least 1 number, not [2, 3] of int64");
}

}  // namespace
}  // namespace troupe::nn::layers_test
