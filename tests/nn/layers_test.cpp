// Each layer against its formula in double and central differences; what layers keep and draw besides; what they
// refuse.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"
#include "tests/nn/passes.hpp"
#include "tests/nn/reference_layers.hpp"

namespace troupe::nn::layers_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;
using model::expect_near;
using model::in_double;

constexpr std::uint64_t key = 77;

layer_spec spec_of(const std::string& json) {
  const auto specs = parse_layers("[" + json + "]");
  EXPECT_TRUE(specs.has_value()) << (specs ? "" : specs.error().message);
  return specs ? specs->front() : layer_spec{};
}

std::shared_ptr<const module> layer_of(const std::string& json, const troupe::shape& sample) {
  const auto made = make_layers({spec_of(json)}, sample);
  if (!made) throw std::runtime_error(made.error().message);
  return made->front().what;
}

struct layer_case {
  const char* json;
  troupe::shape in;  ///< of a sample
};

// On both sides of vector widths, with edges that windows leave out, and each option at least once.
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
    {R"({"kind": "residual", "layers": [{"kind": "layer_norm", "eps": 0.1}, {"kind": "linear", "out": 9}, {"kind": "relu"},
         {"kind": "linear", "out": 5}]})",
     {3, 5}},
};

TEST(Layers, ForwardIsTheFormulaAndGradientsAreCentralDifferences) {
  source_of_numbers random(1);
  for (const layer_case& one : layer_cases) {
    const auto& in = one.in;
    for (const std::size_t size : {2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << one.json << ", batch " << size);
      const auto spec = spec_of(one.json);
      const auto made = layer_of(one.json, in);
      EXPECT_EQ(made->type(), kind_of(spec));
      passes p(*made, batch_of(size, in), random.numbers(size * in.count()));
      p.parameters = random.numbers(p.parameters.size());
      const auto value_of = [&](const std::vector<double>& x, const std::vector<double>& parameters) {
        const double* at = parameters.data();
        auto y = reference_layer(spec, {in, size, x}, at, key);
        EXPECT_EQ(at, parameters.data() + parameters.size());
        return y;
      };
      const auto x = in_double(p.x);
      const auto parameters = in_double(p.parameters);
      const auto expected = value_of(x, parameters);
      EXPECT_EQ(p.out, batch_of(size, expected.shape));
      expect_near(p.forward(), expected.numbers, 1e-5);

      const auto grad_y = random.numbers(p.y.size());
      const auto value = [&](const auto& at, const auto& with) { return product(value_of(at, with).numbers, grad_y); };
      const pass_gradients grad = p.backward(grad_y);
      // Of two numbers that are close, eps apart, the inverse deviation is large: rounding is too.
      expect_near(grad.x, central_differences(x, [&](const auto& at) { return value(at, parameters); }), 2e-3);
      expect_near(grad.parameters, central_differences(parameters, [&](const auto& with) { return value(x, with); }),
                  2e-3);
      p.expect_at_once(grad_y, grad);
    }
  }
}

TEST(Layers, EvaluationWritesNoBuffersAndDropsNothing) {
  source_of_numbers random(2);
  for (const auto& [json, in] : layer_cases) {
    SCOPED_TRACE(json);
    const auto made = layer_of(json, in);
    passes p(*made, batch_of(4, in), random.numbers(4 * in.count()));
    p.how.training = false;
    const auto buffers = p.buffers.get();
    const auto y = p.forward();
    EXPECT_TRUE(same_bits(p.buffers.get(), buffers));
    for (const float one : y) EXPECT_TRUE(std::isfinite(one));
    if (made->type() == "dropout") {
      EXPECT_TRUE(same_bits(y, p.x));
    }
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
    // Evaluation normalises by them.
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
    const std::string text = json;
    const bool drops = text.find("dropout") != std::string::npos && text.find("\"rate\": 0}") == std::string::npos;
    const auto made = layer_of(json, in);
    EXPECT_EQ(made->uses_key(), drops) << json;
    EXPECT_EQ(made->is_identity(), made->type() == "flatten" || (made->type() == "dropout" && !drops)) << json;
  }
}

TEST(Layers, InitialWeightsAreUniformByTheNumberOfInputs) {
  // JSON, shape, then for each tensor: name, fan-in, or 0 for a constant, and the constant.
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
  // Both of its batch norms count, each over its own inputs.
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
  EXPECT_EQ(count_of(R"({"kind": "gelu"})", {3}), 0U);
  EXPECT_EQ(count_of(R"({"kind": "lstm", "hidden": 3, "last": true})", {5, 2}), 5U * 12 * (2 + 3));
}

// As a message of `error`, with the layer's name; what job files have wrong is in layer_spec_test.cpp.
TEST(Layers, BatchesThatALayerIsNotMadeForAreRefused) {
  const auto refusal = [](const module& of, const tensor_view& input) -> std::string {
    try {
      of.output(input);
    } catch (const error& e) {
      EXPECT_EQ(e.kind(), error_kind::input);
      return e.what();
    }
    return "taken";
  };
  using troupe::shape;
  EXPECT_EQ(refusal(linear(3, 2), shape(4, 5)),
            "linear: takes [n, 3] of float32 with n at least 1, not [4, 5] of float32");
  EXPECT_EQ(refusal(linear(3, 2), shape(0, 3)),
            "linear: takes [n, 3] of float32 with n at least 1, not [0, 3] of float32");
  EXPECT_EQ(refusal(layer_norm(3), shape(4, 5)), "layer_norm: is made for 3 features, and its input has 5 features");
  EXPECT_EQ(refusal(low_rank_cross(3, 2, 1), shape(4, 5)),
            "low_rank_cross: is made for 3 features, and its input has 5 features");
  EXPECT_EQ(refusal(batch_norm({.channels = 3}), shape(4, 5)),
            "batch_norm: is made for 3 channels, and its input has 5 features");
  EXPECT_EQ(refusal(conv2d({.in_channels = 3, .out_channels = 2, .kernel = 1}), shape(4, 2, 5, 5)),
            "conv2d: is made for images of 3 channels, and its input is an image of 2 x 5 x 5");
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
