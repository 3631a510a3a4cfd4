// Networks of layers: against an MLP, against the layers' formulas, and what their passes keep to.

#include "model/layer_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/mlp.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_layers.hpp"
#include "tests/model/reference_network.hpp"

namespace troupe::model::layer_network_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

kernels::stream& on = kernels::host_stream();
constexpr float nan_float = std::numeric_limits<float>::quiet_NaN();
constexpr pass_mode training{true, 5};
constexpr pass_mode evaluation{false, 5};

std::vector<layer_spec> specs_of(const std::string& json) {
  auto specs = parse_layers(json);
  EXPECT_TRUE(specs.has_value()) << (specs ? "" : specs.error().message);
  return specs.value_or(std::vector<layer_spec>{});
}

layer_network network_of(const std::string& json, const sample_shape& in, std::uint64_t number = 0) {
  auto made = layer_network::make(specs_of(json), in, number);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

// The passes of one batch after another.
struct run {
  const layer_network& what;
  std::vector<float> parameters;
  std::vector<float> buffers;
  std::unique_ptr<network::activations> kept = what.make_activations();
  std::vector<std::pair<std::size_t, std::size_t>> finished{};

  network::tensors numbers() { return {parameters.data(), buffers.empty() ? nullptr : buffers.data()}; }

  std::vector<float> forward(const std::vector<float>& x, const pass_mode& mode = training) {
    const std::size_t size = x.size() / what.in_features();
    const float* const y = what.forward(on, mode, size, numbers(), x.data(), *kept);
    EXPECT_EQ(y, kept->outputs());
    return {y, y + size * what.out_features()};
  }

  // As a loss does, puts the outputs' gradient in their place.
  std::vector<float> backward(const std::vector<float>& x, const std::vector<float>& grad_y, float* grad_x) {
    const std::size_t size = x.size() / what.in_features();
    std::copy(grad_y.begin(), grad_y.end(), kept->outputs());
    std::vector<float> grads(parameters.size(), nan_float);
    what.backward_inputs(on, training, size, numbers(), x.data(), *kept, kept->outputs(), grad_x);
    finished.clear();
    what.backward_parameters(
        on, size, x.data(), *kept, kept->outputs(), [&](parameter_range range) { return grads.data() + range.first; },
        [&](parameter_range range) {
          finished.emplace_back(range.first, range.count);
          for (std::size_t i = range.first; i < range.first + range.count; ++i) EXPECT_FALSE(std::isnan(grads[i])) << i;
        });
    return grads;
  }
};

run run_of(const layer_network& what, std::uint64_t seed = 3) {
  return {what, what.initial_parameters(seed), what.initial_buffers()};
}

// With pairs that are computed at once, layers that change nothing, and each kind; the second ends in a ReLU.
struct network_case {
  const char* json;
  sample_shape in;
};
const std::vector<network_case> network_cases{
    {R"([{"kind": "conv2d", "out_channels": 3, "kernel": 3, "padding": 1, "bias": false}, {"kind": "batch_norm"},
         {"kind": "relu"}, {"kind": "max_pool2d", "kernel": 2}, {"kind": "residual", "layers": [
         {"kind": "conv2d", "out_channels": 3, "kernel": 1}, {"kind": "gelu"}]},
         {"kind": "flatten"}, {"kind": "dropout", "rate": 0.25}, {"kind": "linear", "out": 6}, {"kind": "relu"},
         {"kind": "layer_norm"}, {"kind": "dropout", "rate": 0}, {"kind": "linear", "out": 2}])",
     {2, 5, 4}},
    {R"([{"kind": "linear", "out": 7}, {"kind": "relu"}, {"kind": "low_rank_cross", "rank": 2, "layers": 2},
         {"kind": "linear", "out": 4}, {"kind": "relu"}])",
     {5}},
    {R"([{"kind": "relu"}, {"kind": "global_avg_pool2d"}, {"kind": "linear", "out": 3, "bias": false},
         {"kind": "relu"}, {"kind": "dropout", "rate": 0.5}])",
     {2, 3, 3}},
    {R"([{"kind": "dropout", "rate": 0.5}, {"kind": "dropout", "rate": 0.5}, {"kind": "linear", "out": 3},
         {"kind": "flatten"}])",
     {8}},
    {R"([{"kind": "linear", "out": 3}, {"kind": "relu"}, {"kind": "flatten"}])", {4}},
};

TEST(LayerNetwork, IsAnMlpToTheBit) {
  source_of_numbers random(1);
  const mlp expected(9, std::vector<std::size_t>{16, 33}, 3);
  const auto network = network_of(R"([{"kind": "linear", "out": 16}, {"kind": "relu"}, {"kind": "linear", "out": 33},
                                      {"kind": "relu"}, {"kind": "linear", "out": 3}])",
                                  {9}, 1);
  EXPECT_EQ(network.in_features(), 9U);
  EXPECT_EQ(network.out_features(), 3U);
  EXPECT_EQ(network.parameters(), expected.parameters());
  EXPECT_EQ(network.parameter_count(), expected.parameter_count());
  EXPECT_EQ(network.numbers_per_sample(), 2 * expected.numbers_per_sample());
  ASSERT_EQ(network.ranges().size(), expected.ranges().size());
  for (std::size_t i = 0; i < expected.ranges().size(); ++i) {
    EXPECT_EQ(network.ranges()[i].first, expected.ranges()[i].first);
    EXPECT_EQ(network.ranges()[i].count, expected.ranges()[i].count);
  }
  auto ours = run_of(network, 4);
  EXPECT_TRUE(same_bits(ours.parameters, expected.initial_parameters(4, 1)));
  EXPECT_FALSE(same_bits(ours.parameters, expected.initial_parameters(4, 0)));
  for (const std::size_t size : {7, 64, 0, 3}) {
    const auto x = random.numbers(size * 9);
    const auto grad_y = random.numbers(size * 3);
    mlp::activations a;
    const float* const y = expected.forward(on, size, ours.parameters.data(), x.data(), a);
    EXPECT_TRUE(same_bits(ours.forward(x), std::vector<float>(y, y + size * 3)));
    std::vector<float> expected_grad_x(x.size());
    std::vector<float> expected_grads(ours.parameters.size());
    expected.backward_inputs(on, size, ours.parameters.data(), a, grad_y.data(), expected_grad_x.data());
    expected.backward_parameters(
        on, size, x.data(), a, grad_y.data(),
        [&](parameter_range range) { return expected_grads.data() + range.first; }, [](parameter_range) {});
    std::vector<float> grad_x(x.size());
    EXPECT_TRUE(same_bits(ours.backward(x, grad_y, grad_x.data()), expected_grads)) << size;
    EXPECT_TRUE(same_bits(grad_x, expected_grad_x)) << size;
  }
}

TEST(LayerNetwork, ForwardIsTheLayersOneAfterTheOtherAndGradientsAreCentralDifferences) {
  source_of_numbers random(2);
  for (const network_case& one : network_cases) {
    const auto& json = one.json;
    const auto& in = one.in;
    SCOPED_TRACE(json);
    const auto specs = specs_of(json);
    const auto network = network_of(json, in);
    auto ours = run_of(network);
    constexpr std::size_t size = 4;
    const auto x = random.numbers(size * network.in_features());
    const auto grad_y = random.numbers(size * network.out_features());
    const auto reference = [&](const std::vector<double>& of, const std::vector<double>& parameters) {
      return reference_layers(specs, {in, size, of}, parameters, training.key).numbers;
    };
    const auto value = [&](const std::vector<double>& y) {
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(grad_y[i]);
      return sum;
    };
    const auto in_x = in_double(x);
    const auto parameters = in_double(ours.parameters);
    expect_near(ours.forward(x), reference(in_x, parameters), 1e-5);
    std::vector<float> grad_x(x.size(), nan_float);
    const auto grads = ours.backward(x, grad_y, grad_x.data());
    expect_near(grad_x, central_differences(in_x, [&](const auto& at) { return value(reference(at, parameters)); }),
                2e-3);
    expect_near(grads, central_differences(parameters, [&](const auto& at) { return value(reference(in_x, at)); }),
                2e-3);
    // The parameters' gradients are the same if nobody asks for the input's.
    ours.forward(x);
    EXPECT_TRUE(same_bits(ours.backward(x, grad_y, nullptr), grads));
  }
}

TEST(LayerNetwork, LayersFinishFromTheLastToTheFirst) {
  source_of_numbers random(3);
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    auto ours = run_of(network);
    const auto x = random.numbers(3 * network.in_features());
    ours.forward(x);
    ours.backward(x, random.numbers(3 * network.out_features()), nullptr);
    auto expected = ours.finished;
    expected.clear();
    for (const auto& range : network.ranges()) expected.emplace(expected.begin(), range.first, range.count);
    EXPECT_EQ(ours.finished, expected);
    std::size_t end = network.parameter_count();
    for (const auto& [first, count] : expected) EXPECT_EQ(first + count, std::exchange(end, first));
    EXPECT_EQ(end, 0U);
  }
}

TEST(LayerNetwork, TensorsHaveTheNumbersOfTheirLayers) {
  const auto network = network_of(R"([{"kind": "flatten"}, {"kind": "batch_norm"}, {"kind": "linear", "out": 2},
      {"kind": "relu"}, {"kind": "residual", "layers": [{"kind": "relu"}, {"kind": "batch_norm", "scale": false}]}])",
                                  {2, 1, 2});
  using tensors = std::vector<named_parameter>;
  EXPECT_EQ(network.parameters(), (tensors{{"1.weight", {4}, 0},
                                           {"1.bias", {4}, 4},
                                           {"2.weight", {2, 4}, 8},
                                           {"2.bias", {2}, 16},
                                           {"4.1.bias", {2}, 18}}));
  EXPECT_EQ(network.buffers(), (tensors{{"1.running_mean", {4}, 0},
                                        {"1.running_var", {4}, 4},
                                        {"4.1.running_mean", {2}, 8},
                                        {"4.1.running_var", {2}, 10}}));
  EXPECT_EQ(network.initial_buffers(), (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(network.multiply_adds(), 8U);
  // Outputs and gradients, then what each keeps: four of each channel, and inside the residual one layer's output too.
  EXPECT_EQ(network.numbers_per_sample(), 2U * (4 + 2 + 2) + 4 * 4 + (4 * 2 + 2 * 2));
}

TEST(LayerNetwork, BuffersAreWrittenInTrainingOnly) {
  source_of_numbers random(4);
  const auto network = network_of(network_cases[0].json, network_cases[0].in);
  auto ours = run_of(network);
  const auto x = random.numbers(5 * network.in_features());
  const auto before = ours.buffers;
  const auto evaluated = ours.forward(x, evaluation);
  EXPECT_TRUE(same_bits(ours.buffers, before));
  const auto trained = ours.forward(x);
  const auto after = ours.buffers;
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], before[i]) << i;
  EXPECT_FALSE(same_bits(ours.forward(x, evaluation), evaluated));
  EXPECT_TRUE(same_bits(ours.buffers, after));
  EXPECT_TRUE(same_bits(ours.forward(x), trained)) << "training passes do not read them";
}

TEST(LayerNetwork, TheSameKeyDropsTheSame) {
  source_of_numbers random(5);
  const auto network = network_of(network_cases[3].json, network_cases[3].in);
  EXPECT_TRUE(network.uses_key());
  EXPECT_FALSE(network_of(network_cases[1].json, network_cases[1].in).uses_key());
  auto ours = run_of(network);
  const auto x = random.numbers(6 * 8);
  const auto y = ours.forward(x);
  EXPECT_TRUE(same_bits(ours.forward(x), y));
  EXPECT_FALSE(same_bits(ours.forward(x, {true, 6}), y));
  EXPECT_TRUE(same_bits(ours.forward(x, {false, 6}), ours.forward(x, {false, 7})));
}

TEST(LayerNetwork, AnotherSizeReusesTheBuffers) {
  source_of_numbers random(6);
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    const auto large = random.numbers(20 * network.in_features());
    const auto x = random.numbers(3 * network.in_features());
    const auto grad_large = random.numbers(20 * network.out_features());
    const auto grad_y = random.numbers(3 * network.out_features());
    auto fresh = run_of(network);
    const auto expected = fresh.forward(x);
    const auto expected_grads = fresh.backward(x, grad_y, nullptr);
    auto used = run_of(network);
    used.forward(large);
    used.backward(large, grad_large, nullptr);
    std::vector<const void*> before;
    used.kept->append_addresses(before);
    EXPECT_TRUE(same_bits(used.forward(x), expected));
    EXPECT_TRUE(same_bits(used.backward(x, grad_y, nullptr), expected_grads));
    std::vector<const void*> after;
    used.kept->append_addresses(after);
    EXPECT_EQ(after, before);
    EXPECT_NE(std::find(after.begin(), after.end(), used.kept->outputs()), after.end());
  }
}

TEST(LayerNetwork, WithoutParametersItStillPassesGradients) {
  const auto network = network_of(R"([{"kind": "relu"}, {"kind": "flatten"}])", {1, 1, 3});
  EXPECT_TRUE(network.ranges().empty());
  run ours{network, {}, {}};
  const std::vector<float> x{1, -2, 3};
  EXPECT_EQ(ours.forward(x), (std::vector<float>{1, 0, 3}));
  std::vector<float> grad_x(3, nan_float);
  ours.backward(x, {5, 6, 7}, grad_x.data());
  EXPECT_EQ(grad_x, (std::vector<float>{5, 0, 7}));
  EXPECT_TRUE(ours.finished.empty());
}

TEST(LayerNetwork, OfLayersThatChangeNothingTheOutputsAreTheInput) {
  const auto network = network_of(R"([{"kind": "flatten"}, {"kind": "dropout", "rate": 0}])", {1, 1, 3});
  run ours{network, {}, {}};
  const std::vector<float> x{1, -2, 3};
  EXPECT_EQ(ours.forward(x), x);
  EXPECT_NE(ours.kept->outputs(), x.data()) << "the loss overwrites them";
}

TEST(LayerNetwork, RowsAreOneForEachLayer) {
  const auto network = network_of(R"([{"kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
      {"kind": "flatten"}, {"kind": "linear", "out": 2}, {"kind": "relu"}, {"kind": "linear", "out": 1}])",
                                  {1, 5, 6});
  const auto& rows = network.rows();
  ASSERT_EQ(rows.size(), 5U);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].number, i);
  EXPECT_EQ(rows[0].kind, "conv2d");
  EXPECT_EQ(rows[0].options, "out_channels 4, kernel 3, padding 1");
  EXPECT_EQ(to_string(rows[0].in), "1 x 5 x 6");
  EXPECT_EQ(to_string(rows[0].out), "4 x 5 x 6");
  EXPECT_EQ(rows[0].parameters, 40U);
  EXPECT_EQ(rows[0].multiply_adds, 4U * 9 * 30);
  EXPECT_EQ(rows[1].kind, "flatten");
  EXPECT_EQ(rows[2].parameters, 242U);
  EXPECT_EQ(rows[3].kind, "relu");
  EXPECT_EQ(rows[3].parameters, 0U);
  EXPECT_EQ(network.multiply_adds(), 4U * 9 * 30 + 240 + 2);
}

TEST(LayerNetwork, NoLayersAndShapesThatDoNotGoAreRefused) {
  const auto none = layer_network::make({}, {3});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, "a network of no layers: must be at least one");
  const auto image = layer_network::make(specs_of(R"([{"kind": "linear", "out": 2}])"), {3, 4, 4});
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(
      image.error().message,
      "layer 0 (linear): takes [features], and its input is an image of 3 x 4 x 4; put a flatten layer before it");
}

}  // namespace
}  // namespace troupe::model::layer_network_test
