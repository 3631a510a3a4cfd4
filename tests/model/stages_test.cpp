// Stages of a pipeline: a split network against the whole one, bitwise; where stages begin, against all splits; and
// refusals.

#include "model/stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/support.hpp"
#include "tests/model/parsed_job.hpp"
#include "tests/nn/passes.hpp"

namespace troupe::model::stages_test {
namespace {

using kernels::test::source_of_numbers;

data_spec spec_of_tables() {
  data_spec spec;
  spec.tables = {{10, 4, kernels::pooling::sum, false}, {10, 4, kernels::pooling::sum, false}};
  spec.dense_features = 3;
  spec.outputs = 2;
  return spec;
}

data_spec spec_of_images() {
  data_spec spec;
  spec.image = {2, 6, 6};
  spec.dense_features = 72;
  spec.outputs = 4;
  return spec;
}

job with_layers(const std::string& json) {
  job what;
  what.layers = nn::parse_layers(json).value();
  return what;
}

/// The results of a training pass: outputs, the input's gradient, the parameters' gradient, the buffers.
struct pass_result {
  std::vector<float> outputs, grad_input, grad, buffers;
  bool operator==(const pass_result&) const = default;
};

constexpr std::size_t samples = 5;

/// Runs a pass; without `grad_outputs` only forward.
pass_result pass_of(const network& what, std::span<const float> parameters, const std::vector<float>& input,
                    const std::vector<float>& grad_outputs) {
  nn::passes passes(*what.module, nn::batch_of(samples, what.in), input, 7);
  passes.parameters.assign(parameters.begin(), parameters.end());
  pass_result made;
  made.outputs = passes.forward();
  if (grad_outputs.empty()) return made;
  nn::pass_gradients grads = passes.backward(grad_outputs);
  made.grad_input = std::move(grads.x);
  made.grad = std::move(grads.parameters);
  made.buffers = passes.buffers.get();
  return made;
}

/// Runs the stages one after the other, and joins their results.
pass_result pass_in_stages(const job& what, const data_spec& spec, const std::vector<float>& parameters,
                           const std::vector<float>& input, const std::vector<float>& grad_outputs) {
  std::vector<network> parts;
  for (std::size_t stage = 0; stage < what.stages.size(); ++stage) parts.push_back(make_stage(what, spec, stage));
  const network_parts places = parts_of_network(what, spec);
  // The parameters of a stage are a range of the whole network's.
  const auto own = [&](std::size_t stage) {
    const auto& tensors = places.parts[stage].parameters;
    const std::size_t first = tensors.empty() ? 0 : tensors.front().first;
    return std::span(parameters).subspan(first, parts[stage].parameter_count());
  };
  std::vector<std::vector<float>> inputs = {input};
  for (std::size_t stage = 0; stage + 1 < parts.size(); ++stage)
    inputs.push_back(pass_of(parts[stage], own(stage), inputs.back(), {}).outputs);
  pass_result made;
  std::vector<float> grad = grad_outputs;
  for (std::size_t stage = parts.size(); stage-- > 0;) {
    pass_result mine = pass_of(parts[stage], own(stage), inputs[stage], grad);
    if (stage + 1 == parts.size()) made.outputs = mine.outputs;
    made.grad.insert(made.grad.begin(), mine.grad.begin(), mine.grad.end());
    made.buffers.insert(made.buffers.begin(), mine.buffers.begin(), mine.buffers.end());
    grad = mine.grad_input;
  }
  made.grad_input = grad;
  return made;
}

void expect_same_bits(job what, const data_spec& spec) {
  const network whole = as_network(hybrid_model(spec, what));
  source_of_numbers numbers(3);
  const std::vector<float> parameters = nn::initial_numbers(*whole.module, 5).parameters;
  const std::vector<float> input = numbers.numbers(samples * whole.in_features());
  const std::vector<float> grad_outputs = numbers.numbers(samples * whole.out_features());
  const pass_result expected = pass_of(whole, parameters, input, grad_outputs);
  const std::size_t layers = layers_of_top(what, spec).size();
  for (std::size_t second = 1; second < layers; ++second) {
    what.stages = {0, second};
    what.pipeline = 2;
    EXPECT_EQ(pass_in_stages(what, spec, parameters, input, grad_outputs), expected) << "cut at " << second;
  }
  what.stages.resize(layers);
  std::iota(what.stages.begin(), what.stages.end(), std::size_t{0});
  what.pipeline = static_cast<std::uint32_t>(layers);
  EXPECT_EQ(pass_in_stages(what, spec, parameters, input, grad_outputs), expected) << "a stage for each layer";
}

TEST(Stages, OfAnMlpComputeWhatItDoes) {
  job what;
  what.hidden = {7, 6, 5};
  expect_same_bits(what, spec_of_tables());
}

TEST(Stages, OfAnMlpTakeImagesAsRows) {
  job what;
  what.hidden = {7, 6};
  expect_same_bits(what, spec_of_images());
}

TEST(Stages, BeginBehindTheInteractionOfDlrm) {
  job what;
  what.hidden = {8};
  for (const auto kind : {interaction_kind::dot, interaction_kind::dcn}) {
    what.interaction = kind;
    what.cross_layers = 2;
    what.cross_rank = 3;
    expect_same_bits(what, spec_of_tables());
  }
}

TEST(Stages, KeepTheLayersNumbersForMasksAndNames) {
  const job what = with_layers(R"([{"kind": "conv2d", "out_channels": 3, "kernel": 3}, {"kind": "batch_norm"},
      {"kind": "relu"}, {"kind": "flatten"}, {"kind": "dropout", "rate": 0.4}, {"kind": "linear", "out": 6},
      {"kind": "relu"}, {"kind": "dropout", "rate": 0.4}, {"kind": "linear", "out": 4}])");
  expect_same_bits(what, spec_of_images());
  const auto part = make_layers_of_top(spec_of_images(), what, {5, 9});
  EXPECT_EQ(part.module->parameters().front().name, "5.weight");
  EXPECT_EQ(part.module->parameters().back().name, "8.bias");
}

/// The time of a split's longest stage.
double longest(const std::vector<double>& seconds, const std::vector<std::size_t>& begins) {
  double most = 0;
  for (std::size_t k = 0; k < begins.size(); ++k) {
    const std::size_t end = k + 1 < begins.size() ? begins[k + 1] : seconds.size();
    double sum = 0;
    for (std::size_t i = begins[k]; i < end; ++i) sum += seconds[i];
    most = std::max(most, sum);
  }
  return most;
}

TEST(Stages, AreBalancedAsNoOtherCutIsBetter) {
  source_of_numbers numbers(11);
  for (std::size_t layers = 1; layers <= 9; ++layers) {
    std::vector<double> seconds;
    for (const float one : numbers.numbers(layers)) seconds.push_back(static_cast<double>(one * one) + 0.01);
    for (std::size_t stages = 1; stages <= layers; ++stages) {
      const auto begins = balanced_stages(seconds, stages);
      ASSERT_EQ(begins.size(), stages);
      EXPECT_EQ(begins.front(), 0U);
      EXPECT_EQ(std::ranges::adjacent_find(begins, std::ranges::greater_equal()), begins.end());
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t cut = 0; cut < std::size_t{1} << (layers - 1); ++cut) {
        std::vector<std::size_t> other = {0};
        for (std::size_t i = 1; i < layers; ++i)
          if ((cut >> (i - 1) & 1) != 0) other.push_back(i);
        if (other.size() == stages) best = std::min(best, longest(seconds, other));
      }
      EXPECT_DOUBLE_EQ(longest(seconds, begins), best) << layers << " layers in " << stages;
    }
  }
}

TEST(Stages, AreMeasuredLayerByLayer) {
  job what;
  what.hidden = {256, 4};
  what.batch_size = 64;
  const auto seconds = measure_layers(what, spec_of_tables());
  ASSERT_EQ(seconds.size(), 5U);
  for (const double one : seconds) EXPECT_GT(one, 0);
  what.pipeline = 3;
  const auto begins = measured_stages(what, spec_of_tables());
  EXPECT_EQ(begins.size(), 3U);
  what.stages = begins;
  EXPECT_EQ(check_parts(what, spec_of_tables()), std::nullopt);
}

/// A flatten layer alone would be the cheapest first stage.
TEST(Stages, BeginWithParameters) {
  job what = with_layers(R"([{"kind": "flatten"}, {"kind": "relu"}, {"kind": "linear", "out": 6}, {"kind": "relu"},
                             {"kind": "linear", "out": 4}])");
  what.batch_size = 8;
  what.pipeline = 3;
  EXPECT_GE(measured_stages(what, spec_of_images())[1], 3U);
}

TEST(Stages, ThatCannotBeAreRefused) {
  job what;
  what.hidden = {7};
  what.pipeline = 4;
  EXPECT_EQ(check_parts(what, spec_of_tables()),
            "--pipeline 4: the network has only 3 layers (--hidden) to cut into stages; use at most 3");
  what.pipeline = 2;
  what.stages = {0, 1, 2};
  EXPECT_EQ(check_parts(what, spec_of_tables()),
            "--stages 0,1,2: begins 3 stage(s), and --pipeline is 2; give the first layer of each stage");
  what.stages = {0, 3};
  EXPECT_EQ(check_parts(what, spec_of_tables()),
            "--stages 0,3: there is no layer 3; the network's layers (--hidden) are 0 to 2");
  job images = with_layers(R"([{"kind": "flatten"}, {"kind": "linear", "out": 4}])");
  images.pipeline = 2;
  images.stages = {0, 1};
  EXPECT_EQ(check_parts(images, spec_of_images()),
            "--stages 0,1: stage 0 has no parameters, by whose gradient the trainers agree; begin stage 1 later");
  images.trainers = 1;
  EXPECT_EQ(check_parts(images, spec_of_images()), std::nullopt);
  images.trainers = 2;
  images.stages.clear();
  EXPECT_EQ(check_parts(images, spec_of_images()),
            "--pipeline 2: the first stage needs a layer with parameters (--layers), so there can be 1 at most");
  images = with_layers(R"([{"kind": "batch_norm", "synchronized": true}, {"kind": "flatten"},
                           {"kind": "linear", "out": 4}])");
  images.pipeline = 2;
  EXPECT_NE(check_parts(images, spec_of_images()).value_or("").find("batch_norm with synchronized"), std::string::npos);
}

TEST(Stages, HaveABubbleOfPMinusOneOfMAndPMinusOne) {
  EXPECT_EQ(bubble_of(1, 8), 0);
  EXPECT_EQ(bubble_of(2, 1), 0.5);
  EXPECT_DOUBLE_EQ(bubble_of(4, 8), 3.0 / 11.0);
}

}  // namespace
}  // namespace troupe::model::stages_test
