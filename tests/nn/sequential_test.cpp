// Modules in sequence, as job files describe them: compared with the layers' formulas, bit by bit with the modules
// alone; and the rules that their passes follow.

#include "nn/sequential.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tests/kernels/helping_threads.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"
#include "tests/nn/passes.hpp"
#include "tests/nn/reference_layers.hpp"

namespace troupe::nn::sequential_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;
using model::expect_near;
using model::in_double;
using pairs = noted_places::pairs;

std::vector<layer_spec> specs_of(const std::string& json) {
  auto specs = parse_layers(json);
  if (!specs) throw std::runtime_error(specs.error().message);
  return std::move(*specs);
}

std::vector<std::shared_ptr<const module>> modules_of(const std::string& json, const troupe::shape& sample) {
  const auto made = make_layers(specs_of(json), sample);
  if (!made) throw std::runtime_error(made.error().message);
  std::vector<std::shared_ptr<const module>> modules;
  for (const made_layer& one : *made) modules.push_back(one.what);
  return modules;
}

sequential network_of(const std::string& json, const troupe::shape& sample) {
  return sequential(modules_of(json, sample));
}

// With pairs that are fused, layers that change nothing, and each kind; the second ends in a ReLU.
struct network_case {
  const char* json;
  troupe::shape in;  ///< of a sample
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
    {R"([{"kind": "linear", "out": 16}, {"kind": "relu"}, {"kind": "linear", "out": 8}, {"kind": "relu"},
         {"kind": "linear", "out": 2}])",
     {9}},
    {R"([{"kind": "linear", "out": 1}])", {1}},
};

TEST(Sequential, ForwardIsTheLayersOneAfterTheOtherAndGradientsAreCentralDifferences) {
  source_of_numbers random(2);
  for (const auto& [json, in] : network_cases)
    for (const std::size_t size : {1, 4, 7}) {
      SCOPED_TRACE(testing::Message() << json << ", batch " << size);
      const auto specs = specs_of(json);
      const auto network = network_of(json, in);
      passes p(network, batch_of(size, in), random.numbers(size * in.count()));
      const auto grad_y = random.numbers(p.y.size());
      const auto reference = [&, sample = in](const std::vector<double>& x, const std::vector<double>& parameters) {
        return reference_layers(specs, {sample, size, x}, parameters, p.how.key).numbers;
      };
      const auto x = in_double(p.x);
      const auto parameters = in_double(p.parameters);
      expect_near(p.forward(), reference(x, parameters), 1e-5);
      const pass_gradients grad = p.backward(grad_y);
      expect_near(grad.x,
                  central_differences(x, [&](const auto& at) { return product(reference(at, parameters), grad_y); }),
                  2e-3);
      expect_near(grad.parameters,
                  central_differences(parameters, [&](const auto& at) { return product(reference(x, at), grad_y); }),
                  2e-3);
      p.expect_at_once(grad_y, grad);
    }
}

/// The passes of the modules alone, each with its part of the network's numbers.
struct passes_alone {
  std::vector<std::shared_ptr<const module>> modules;
  std::vector<passes> of = {};
  std::vector<float> y = {};

  void forward(const troupe::shape& in, const std::vector<float>& x, std::uint64_t key) {
    y = x;
    troupe::shape shape = in;
    for (std::size_t i = 0; i < modules.size(); ++i) {
      passes& one = of.emplace_back(*modules[i], shape, y, kernels::random_bits(key, i));
      y = one.forward();
      shape = one.out;
    }
  }

  pass_gradients backward(const std::vector<float>& grad_y) {
    pass_gradients all{grad_y, {}};
    for (std::size_t i = of.size(); i-- > 0;) {
      pass_gradients mine = of[i].backward(all.x);
      all.x = std::move(mine.x);
      all.parameters.insert(all.parameters.begin(), mine.parameters.begin(), mine.parameters.end());
    }
    return all;
  }
};

// So neither a ReLU fused into a linear layer's product nor a layer that is left out changes a bit.
TEST(Sequential, IsItsModulesOneAfterTheOtherToTheBit) {
  source_of_numbers random(1);
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    passes together(network, batch_of(5, in), random.numbers(5 * in.count()));
    passes_alone alone{modules_of(json, in)};
    alone.forward(together.in, together.x, together.how.key);
    std::vector<float> parameters;
    for (const passes& one : alone.of)
      parameters.insert(parameters.end(), one.parameters.begin(), one.parameters.end());
    EXPECT_TRUE(same_bits(together.parameters, parameters)) << "modules begin by their numbers";
    EXPECT_TRUE(same_bits(together.forward(), alone.y));
    const auto grad_y = random.numbers(together.y.size());
    const pass_gradients expected = alone.backward(grad_y);
    const pass_gradients grad = together.backward(grad_y);
    EXPECT_TRUE(same_bits(grad.x, expected.x));
    EXPECT_TRUE(same_bits(grad.parameters, expected.parameters));
  }
}

TEST(Sequential, TheParametersGradientsNeedNoWayBackBefore) {
  source_of_numbers random(7);
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    passes p(network, batch_of(3, in), random.numbers(3 * in.count()));
    const auto grad_y = random.numbers(p.y.size());
    p.forward();
    const auto expected = p.backward(grad_y).parameters;
    p.forward();
    noted_places to(p.parameters.size());
    network.backward_parameters(p.how, p.numbers(), {grad_y.data(), p.out}, to);
    EXPECT_TRUE(same_bits(to.numbers.get(), expected));
  }
}

TEST(Sequential, LayersFinishFromTheLastToTheFirstEachOneComplete) {
  source_of_numbers random(3);
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    passes p(network, batch_of(3, in), random.numbers(3 * in.count()));
    const auto grad_y = random.numbers(p.y.size());
    p.forward();
    const auto expected = p.backward(grad_y).parameters;
    p.forward();
    p.backward({.output = {grad_y.data(), p.out}});
    noted_places to(expected.size());
    to.when_finished = [&](const parameter_range& range) {
      // This range is final from here on, and nothing before it has been written.
      ASSERT_LE(to.done.size(), to.asked.size()) << "finished before it was begun";
      const auto numbers = to.numbers.get();
      EXPECT_TRUE(same_bits(std::span(numbers).subspan(range.first), std::span(expected).subspan(range.first)));
      EXPECT_TRUE(std::ranges::all_of(std::span(numbers).first(range.first), [](float g) { return std::isnan(g); }));
    };
    p.backward_parameters(grad_y, to);
    EXPECT_EQ(to.asked, to.done);
    EXPECT_EQ(to.done, noted_places::from_the_last(network.ranges()));
    std::size_t end = expected.size();
    for (const auto& [first, count] : to.done) EXPECT_EQ(first + count, std::exchange(end, first));
    EXPECT_EQ(end, 0U);
  }
}

TEST(Sequential, LayersWhoseGradientsOtherThreadsComputeHaveTheSameBitsAndFinishInOrder) {
  source_of_numbers random(6);
  constexpr std::size_t batch = 256;
  const sequential network(linear(64, 200), relu(), linear(200, 100), relu(), linear(100, 50), relu(), linear(50, 1));
  passes p(network, {batch, 64}, random.numbers(batch * 64));
  const auto grad_y = random.numbers(batch);
  p.forward();
  const auto expected = p.backward(grad_y).parameters;
  const auto expect_same = [&](const auto& threads) {
    const kernels::idle_threads_in_use in_use(threads);
    noted_places to(expected.size());
    const auto caller = std::this_thread::get_id();
    to.when_finished = [&](const parameter_range& range) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      const auto first = static_cast<std::ptrdiff_t>(range.first);
      EXPECT_TRUE(same_bits({to.numbers.data() + first, expected.size() - range.first},
                            std::span(expected).subspan(range.first)));
    };
    p.backward_parameters(grad_y, to);
    EXPECT_GT(threads->offers(), 0U);
    EXPECT_EQ(to.done, noted_places::from_the_last(network.ranges()));
  };
  expect_same(std::make_shared<kernels::test::hasty_thread>());
  expect_same(std::make_shared<kernels::test::helping_threads>(1));
  expect_same(std::make_shared<kernels::test::helping_threads>(3));
}

TEST(Sequential, TensorsHaveTheNumbersOfTheirLayers) {
  const auto network = network_of(R"([{"kind": "flatten"}, {"kind": "batch_norm"}, {"kind": "linear", "out": 2},
      {"kind": "relu"}, {"kind": "residual", "layers": [{"kind": "relu"}, {"kind": "batch_norm", "scale": false}]}])",
                                  {2, 1, 2});
  using tensors = std::vector<parameter>;
  EXPECT_EQ(placed(network.parameters()), (tensors{{"1.weight", {4}, 0},
                                                   {"1.bias", {4}, 4},
                                                   {"2.weight", {2, 4}, 8},
                                                   {"2.bias", {2}, 16},
                                                   {"4.1.bias", {2}, 18}}));
  EXPECT_EQ(placed(network.buffers()), (tensors{{"1.running_mean", {4}, 0},
                                                {"1.running_var", {4}, 4},
                                                {"4.1.running_mean", {2}, 8},
                                                {"4.1.running_var", {2}, 10}}));
  EXPECT_EQ(noted_places::from_the_last(network.ranges()), (pairs{{18, 2}, {8, 10}, {0, 8}}));
  EXPECT_EQ(initial_numbers(network, 1).buffers, (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(network.multiply_adds(troupe::shape(3, 2, 1, 2)), 3 * 8U);
}

std::size_t saved_of(const sequential& of, const troupe::shape& in) { return of.saved(in, kernels::host_stream()); }

// Saves an output and its gradient between two steps. A ReLU after a linear layer is fused with it, unless it is the
// last module, and layers that change nothing are left out.
TEST(Sequential, SavesWhatIsBetweenItsSteps) {
  constexpr std::size_t batch = 4;
  EXPECT_EQ(saved_of(sequential(linear(3, 5)), {batch, 3}), 0U);
  EXPECT_EQ(saved_of(sequential(linear(3, 5), relu(), linear(5, 2)), {batch, 3}), batch * 2 * 5);
  EXPECT_EQ(saved_of(sequential(linear(3, 5), gelu(), linear(5, 2)), {batch, 3}), batch * 2 * (5 + 5));
  EXPECT_EQ(saved_of(sequential(linear(3, 5), relu()), {batch, 3}), batch * 2 * 5);
  EXPECT_EQ(saved_of(sequential(flatten(), linear(4, 5), dropout(0), relu(), linear(5, 2)), {batch, 1, 2, 2}),
            batch * 2 * (5 + 5))
      << "a layer between keeps them two steps";
  EXPECT_EQ(saved_of(sequential(flatten(), linear(4, 5), relu(), dropout(0), linear(5, 2)), {batch, 1, 2, 2}),
            batch * 2 * 5);
  EXPECT_EQ(saved_of(sequential(gelu(), flatten()), {batch, 1, 2, 2}), batch * 2 * 4)
      << "the output is not the input's memory";
  // A batch normalization saves four numbers per channel, a residual the output of its inner layers.
  EXPECT_EQ(saved_of(sequential(batch_norm({.channels = 3}), residual(linear(3, 3))), {batch, 3}),
            4 * 3 + batch * 2 * 3 + batch * 3);
}

TEST(Sequential, BuffersAreWrittenInTrainingOnly) {
  source_of_numbers random(4);
  const auto& [json, in] = network_cases[0];
  const auto network = network_of(json, in);
  passes p(network, batch_of(5, in), random.numbers(5 * in.count()));
  const auto forward = [&p](bool training) {
    p.how.training = training;
    return p.forward();
  };
  const auto before = p.buffers.get();
  const auto evaluated = forward(false);
  EXPECT_TRUE(same_bits(p.buffers.get(), before));
  const auto trained = forward(true);
  const auto after = p.buffers.get();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], before[i]) << i;
  EXPECT_FALSE(same_bits(forward(false), evaluated));
  EXPECT_TRUE(same_bits(p.buffers.get(), after));
  EXPECT_TRUE(same_bits(forward(true), trained)) << "training passes do not read them";
}

TEST(Sequential, TheSameKeyDropsTheSame) {
  source_of_numbers random(5);
  const auto network = network_of(network_cases[3].json, network_cases[3].in);
  EXPECT_TRUE(network.uses_key());
  EXPECT_FALSE(network_of(network_cases[1].json, network_cases[1].in).uses_key());
  passes p(network, {6, 8}, random.numbers(6 * 8));
  const auto y = p.forward();
  EXPECT_TRUE(same_bits(p.forward(), y));
  p.how.key = 6;
  EXPECT_FALSE(same_bits(p.forward(), y));
  p.how.training = false;
  const auto evaluated = p.forward();
  p.how.key = 7;
  EXPECT_TRUE(same_bits(p.forward(), evaluated));
}

// More sizes than the network caches plans for.
TEST(Sequential, PassesOfManySizesTakeTurns) {
  source_of_numbers random(6);
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    passes p(network, batch_of(3, in), random.numbers(3 * in.count()));
    const auto grad_y = random.numbers(p.y.size());
    const auto y = p.forward();
    const pass_gradients expected = p.backward(grad_y);
    p.forward();
    for (const std::size_t size : {20, 1, 2, 5, 9, 4}) {
      passes other(network, batch_of(size, in), random.numbers(size * in.count()));
      other.forward();
      other.backward(random.numbers(other.y.size()));
    }
    const pass_gradients later = p.backward(grad_y);
    EXPECT_TRUE(same_bits(later.x, expected.x));
    EXPECT_TRUE(same_bits(later.parameters, expected.parameters));
    EXPECT_TRUE(same_bits(p.forward(), y));
  }
}

// A trainer without data, or with fewer micro-batches than others, passes no samples.
TEST(Sequential, OfNoSamplesTheParametersGradientsAreZerosAndNothingElseIsWritten) {
  for (const auto& [json, in] : network_cases) {
    SCOPED_TRACE(json);
    const auto network = network_of(json, in);
    passes p(network, batch_of(2, in), std::vector<float>(2 * in.count()));
    const auto buffers = p.buffers.get();
    pass_numbers none = p.numbers();
    none.input = batch_of(0, in);
    none.output = {p.y.data(), p.out.with_first(0)};
    none.saved = {};
    network.forward(p.how, none);
    guarded_numbers grad(p.parameters.size());
    network.backward(p.how, none, {.output = none.output, .parameters = {grad.data(), p.parameter_list}});
    for (const float one : grad.get()) EXPECT_EQ(one, 0.0F);
    noted_places to(p.parameters.size());
    network.backward_parameters(p.how, none, none.output, to);
    for (const float one : to.numbers.get()) EXPECT_EQ(one, 0.0F);
    EXPECT_EQ(to.done, noted_places::from_the_last(network.ranges()));
    EXPECT_TRUE(same_bits(p.buffers.get(), buffers));
    for (const float one : p.y.get()) EXPECT_TRUE(std::isnan(one));
  }
}

TEST(Sequential, WithoutParametersItStillPassesGradients) {
  const sequential network{relu(), flatten()};
  EXPECT_TRUE(network.ranges().empty());
  passes p(network, {1, 1, 1, 3}, {1, -2, 3});
  EXPECT_EQ(p.forward(), (std::vector<float>{1, 0, 3}));
  const pass_gradients grad = p.backward({5, 6, 7});
  EXPECT_EQ(grad.x, (std::vector<float>{5, 0, 7}));
  noted_places to(0);
  network.backward_parameters(p.how, p.numbers(), {p.x.data(), p.out}, to);
  EXPECT_TRUE(to.asked.empty() && to.done.empty());
}

TEST(Sequential, OfLayersThatChangeNothingTheOutputsAreTheInput) {
  const sequential network(flatten(), dropout(0));
  passes p(network, {1, 1, 1, 3}, {1, -2, 3});
  EXPECT_EQ(p.forward(), p.x);
  EXPECT_EQ(p.backward({5, 6, 7}).x, (std::vector<float>{5, 6, 7}));
}

TEST(Sequential, NoModulesAndShapesThatDoNotGoAreRefused) {
  const auto refusal = [](const sequential& of, const troupe::shape& in) -> std::string {
    try {
      of.output(in);
    } catch (const error& e) {
      return e.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal(sequential(), {2, 3}), "sequential: has no modules; add at least 1");
  EXPECT_EQ(refusal(sequential(relu(), linear(48, 2)), {1, 3, 4, 4}),
            "linear: takes [features], and its input is an image of 3 x 4 x 4; put a flatten layer before it");
}

}  // namespace
}  // namespace troupe::nn::sequential_test
