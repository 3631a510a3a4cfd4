// Each layer against its formula in double and central differences; what layers keep and draw besides.

#include "model/layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/random.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_layers.hpp"
#include "tests/model/reference_network.hpp"

namespace troupe::model::layers_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

kernels::stream& on = kernels::host_stream();
constexpr float nan_float = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint64_t key = 77;

layer_spec spec_of(const std::string& json) {
  const auto specs = parse_layers("[" + json + "]");
  EXPECT_TRUE(specs.has_value()) << (specs ? "" : specs.error().message);
  return specs ? specs->front() : layer_spec{};
}

layer_ptr layer_of(const std::string& json, const sample_shape& in) {
  auto made = make_layer(spec_of(json), 0, in);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made ? std::move(*made) : nullptr;
}

// The passes of one batch; NaN wherever nothing has been written.
struct passes {
  const layer& what;
  std::size_t size;
  std::vector<float> parameters;
  std::vector<float> buffers;
  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> saved;
  std::uint64_t first_sample = 0;

  passes(const layer& of, std::size_t batch, std::vector<float> input)
      : what(of),
        size(batch),
        parameters(count_of(of.parameters()), nan_float),
        buffers(count_of(of.buffers()), nan_float),
        x(std::move(input)),
        y(batch * count_of(of.out()), nan_float),
        saved(of.saved(batch), nan_float) {
    what.initialize(key, parameters.data(), buffers.data());
  }

  layer::pass how(bool training) const { return {on, size, training, key, first_sample}; }
  layer::numbers numbers() { return {parameters.data(), buffers.data(), x.data(), y.data(), saved.data()}; }

  void forward(bool training = true) { what.forward(how(training), numbers()); }

  std::vector<float> grad_x(const std::vector<float>& grad_y) {
    std::vector<float> grad(x.size(), nan_float);
    what.backward_input(how(true), numbers(), grad_y.data(), grad.data());
    return grad;
  }
  std::vector<float> grad_parameters(const std::vector<float>& grad_y) {
    std::vector<float> grad(parameters.size(), nan_float);
    if (!grad.empty()) what.backward_parameters(how(true), numbers(), grad_y.data(), grad.data());
    return grad;
  }
};

struct layer_case {
  const char* json;
  sample_shape in;
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
};

TEST(Layers, ForwardIsTheFormulaAndGradientsAreCentralDifferences) {
  source_of_numbers random(1);
  for (const layer_case& one : layer_cases) {
    const auto& json = one.json;
    const auto& in = one.in;
    for (const std::size_t size : {2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << json << ", batch " << size);
      const auto spec = spec_of(json);
      const auto made = layer_of(json, in);
      passes p(*made, size, random.numbers(size * count_of(in)));
      p.parameters = random.numbers(p.parameters.size());
      const auto value_of = [&](const std::vector<double>& x, const std::vector<double>& parameters) {
        const double* at = parameters.data();
        auto y = reference_layer(spec, {in, size, x}, at, key);
        EXPECT_EQ(at, parameters.data() + parameters.size());
        return y;
      };
      const auto x = in_double(p.x);
      const auto parameters = in_double(p.parameters);
      p.forward();
      const auto expected = value_of(x, parameters);
      EXPECT_EQ(made->out(), expected.shape);
      EXPECT_EQ(made->in(), in);
      EXPECT_EQ(made->kind(), to_string(spec.kind));
      expect_near(p.y, expected.numbers, 1e-5);

      const auto grad_y = random.numbers(p.y.size());
      const auto product = [&](const reference_batch& y) {
        double sum = 0;
        for (std::size_t i = 0; i < grad_y.size(); ++i) sum += y.numbers[i] * static_cast<double>(grad_y[i]);
        return sum;
      };
      const auto grad_x = p.grad_x(grad_y);
      // Of two numbers that are close, eps apart, the inverse deviation is large: rounding is too.
      expect_near(grad_x, central_differences(x, [&](const auto& at) { return product(value_of(at, parameters)); }),
                  2e-3);
      const auto grad = p.grad_parameters(grad_y);
      expect_near(grad, central_differences(parameters, [&](const auto& at) { return product(value_of(x, at)); }),
                  2e-3);
      if (grad.empty()) continue;
      // The parameters' gradients are the same if nobody asks for the input's.
      std::fill(p.saved.begin(), p.saved.end(), nan_float);
      p.forward();
      made->backward_input(p.how(true), p.numbers(), grad_y.data(), nullptr);
      EXPECT_TRUE(same_bits(p.grad_parameters(grad_y), grad));
    }
  }
}

TEST(Layers, EvaluationWritesNoBuffersAndDropsNothing) {
  source_of_numbers random(2);
  for (const auto& [json, in] : layer_cases) {
    SCOPED_TRACE(json);
    const auto made = layer_of(json, in);
    passes p(*made, 4, random.numbers(4 * count_of(in)));
    const auto buffers = p.buffers;
    p.forward(false);
    EXPECT_TRUE(same_bits(p.buffers, buffers));
    for (const float one : p.y) EXPECT_TRUE(std::isfinite(one));
    if (made->kind() == "dropout") {
      EXPECT_TRUE(same_bits(p.y, p.x));
    }
  }
}

TEST(Layers, OfAnEmptyBatchTheParametersGradientsAreZero) {
  for (const auto& [json, in] : layer_cases) {
    SCOPED_TRACE(json);
    const auto made = layer_of(json, in);
    passes p(*made, 0, {});
    const auto buffers = p.buffers;
    p.forward();
    EXPECT_TRUE(same_bits(p.buffers, buffers));
    p.grad_x({});
    for (const float one : p.grad_parameters({})) EXPECT_EQ(one, 0.0F);
  }
}

TEST(Layers, RunningStatisticsFollowTheBatchesWithTheUnbiasedVariance) {
  source_of_numbers random(3);
  for (const sample_shape& in : {sample_shape{3}, sample_shape{3, 2, 2}}) {
    const auto made = layer_of(R"({"kind": "batch_norm", "momentum": 0.25, "eps": 0.01})", in);
    const std::size_t area = count_of(in) / 3;
    ASSERT_EQ(made->buffers(), (std::vector<named_parameter>{{"running_mean", {3}, 0}, {"running_var", {3}, 3}}));
    passes p(*made, 5, random.numbers(5 * count_of(in)));
    EXPECT_EQ(p.buffers, (std::vector<float>{0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(p.parameters, (std::vector<float>{1, 1, 1, 0, 0, 0}));
    std::vector<double> expected(p.buffers.begin(), p.buffers.end());
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
      expect_near(p.buffers, expected, 1e-6);
    }
    // Evaluation normalises by them.
    p.forward(false);
    std::vector<double> y;
    for (std::size_t i = 0; i < p.x.size(); ++i) {
      const std::size_t c = i / area % 3;
      y.push_back((static_cast<double>(p.x[i]) - expected[c]) / std::sqrt(expected[3 + c] + 0.01));
    }
    expect_near(p.y, y, 1e-5);
  }
}

TEST(Layers, OfOneNumberTheRunningVarianceIsThatOfTheBatch) {
  const auto made = layer_of(R"({"kind": "batch_norm", "momentum": 0.5})", {2});
  passes p(*made, 1, {4, -2});
  p.forward();
  EXPECT_EQ(p.buffers, (std::vector<float>{2, -1, 0.5F, 0.5F}));
  EXPECT_EQ(p.y, (std::vector<float>{0, 0}));
}

TEST(Layers, DropoutDropsTheSameOfASampleHoweverTheBatchIsCut) {
  source_of_numbers random(4);
  const auto made = layer_of(R"({"kind": "dropout", "rate": 0.3})", {37});
  passes whole(*made, 9, random.numbers(9 * 37));
  whole.forward();
  std::size_t dropped = 0;
  for (const float one : whole.y) dropped += one == 0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(dropped) / (9 * 37), 0.3, 0.1);
  for (const std::size_t first : {1, 4, 8}) {
    passes part(*made, 9 - first, {whole.x.begin() + static_cast<std::ptrdiff_t>(first * 37), whole.x.end()});
    part.first_sample = first;
    part.forward();
    EXPECT_TRUE(same_bits(part.y, std::span(whole.y).subspan(first * 37))) << first;
    const std::vector<float> grad_y(part.x.size(), 1.0F);
    const auto grad_x = part.grad_x(grad_y);
    for (std::size_t i = 0; i < grad_x.size(); ++i) ASSERT_EQ(grad_x[i] == 0, part.y[i] == 0) << i;
  }
}

TEST(Layers, OnlyDroppingNeedsAKey) {
  for (const auto& [json, in] : layer_cases) {
    const std::string text = json;
    const bool drops = text.find("dropout") != std::string::npos && text.find("\"rate\": 0}") == std::string::npos;
    EXPECT_EQ(layer_of(json, in)->uses_key(), drops) << json;
  }
}

TEST(Layers, InitialWeightsAreUniformByTheNumberOfInputs) {
  // JSON, shape, then for each tensor: name, fan-in, or 0 for a constant, and the constant.
  struct tensor_start {
    std::string name;
    std::vector<std::size_t> shape;
    std::size_t fan_in;
    float constant;
  };
  const std::vector<std::tuple<std::string, sample_shape, std::vector<tensor_start>>> cases{
      {R"({"kind": "linear", "out": 5})", {7}, {{"weight", {5, 7}, 7, 0}, {"bias", {5}, 7, 0}}},
      {R"({"kind": "linear", "out": 5, "bias": false})", {7}, {{"weight", {5, 7}, 7, 0}}},
      {R"({"kind": "conv2d", "out_channels": 4, "kernel": 3})",
       {2, 5, 5},
       {{"weight", {4, 2, 3, 3}, 18, 0}, {"bias", {4}, 18, 0}}},
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
    const passes p(*made, 0, {});
    const auto named = made->parameters();
    ASSERT_EQ(named.size(), tensors.size());
    std::size_t first = 0;
    for (std::size_t t = 0; t < named.size(); ++t) {
      EXPECT_EQ(named[t], (named_parameter{tensors[t].name, tensors[t].shape, first}));
      const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(tensors[t].fan_in)));
      for (const std::size_t end = first + named[t].count(); first < end; ++first)
        EXPECT_EQ(p.parameters[first], tensors[t].fan_in > 0 ? uniform(key, first, -bound, bound) : tensors[t].constant)
            << named[t].name;
    }
  }
}

TEST(Layers, AResidualHasItsLayersTensorsByTheirNumbers) {
  const std::string json = R"({"kind": "residual", "layers": [{"kind": "batch_norm"}, {"kind": "relu"},
      {"kind": "linear", "out": 3}, {"kind": "batch_norm", "scale": false}]})";
  const auto made = layer_of(json, {3});
  using tensors = std::vector<named_parameter>;
  EXPECT_EQ(made->parameters(), (tensors{{"0.weight", {3}, 0},
                                         {"0.bias", {3}, 3},
                                         {"2.weight", {3, 3}, 6},
                                         {"2.bias", {3}, 15},
                                         {"3.bias", {3}, 18}}));
  EXPECT_EQ(made->buffers(), (tensors{{"0.running_mean", {3}, 0},
                                      {"0.running_var", {3}, 3},
                                      {"3.running_mean", {3}, 6},
                                      {"3.running_var", {3}, 9}}));
  source_of_numbers random(5);
  passes p(*made, 4, random.numbers(12));
  const auto bound = static_cast<float>(1 / std::sqrt(3.0));
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_EQ(p.parameters[6 + i], uniform(random_bits(key, 1 + 2), i, -bound, bound)) << i;
  p.forward();
  // Both of its batch norms count, each over its own inputs.
  const reference_batch x{{3}, 4, in_double(p.x)};
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(static_cast<double>(p.buffers[c]), 0.1 * moments_of_channel(x, c).mean, 1e-6);
    EXPECT_NE(p.buffers[6 + c], 0.0F);
    EXPECT_NE(p.buffers[9 + c], 1.0F);
  }
}

TEST(Layers, MultiplyAddsAreThoseOfTheProducts) {
  EXPECT_EQ(layer_of(R"({"kind": "linear", "out": 5})", {7})->multiply_adds(), 35U);
  EXPECT_EQ(layer_of(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1, "stride": 2})", {2, 6, 8})
                ->multiply_adds(),
            4U * 2 * 9 * 3 * 4);
  EXPECT_EQ(layer_of(R"({"kind": "low_rank_cross", "rank": 2, "layers": 3})", {5})->multiply_adds(), 60U);
  EXPECT_EQ(
      layer_of(R"({"kind": "residual", "layers": [{"kind": "linear", "out": 2}, {"kind": "linear", "out": 3}]})", {3})
          ->multiply_adds(),
      12U);
  EXPECT_EQ(layer_of(R"({"kind": "gelu"})", {3})->multiply_adds(), 0U);
  EXPECT_EQ(layer_of(R"({"kind": "lstm", "hidden": 3, "last": true})", {5, 2})->multiply_adds(), 5U * 12 * (2 + 3));
}

}  // namespace
}  // namespace troupe::model::layers_test
