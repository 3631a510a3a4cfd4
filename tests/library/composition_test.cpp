// Modules made of modules: names, numbers, buckets, random numbers and buffers.

#include "troupe/composition.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/trainer/trained_parameters.hpp"
#include "kernels/device.hpp"
#include "model/random.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/runtime/gradient_writers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::composition_test {
namespace {

std::vector<std::string> names_of(const std::vector<nn::parameter>& tensors) {
  std::vector<std::string> names;
  for (const nn::parameter& one : tensors) names.push_back(one.name + " " + to_string(one.shape));
  return names;
}

using names = std::vector<std::string>;

TEST(Composition, NamesTensorsAsPyTorchDoes) {
  const nn::sequential network(nn::linear(3, 4), nn::relu(),
                               nn::residual(nn::sequential(test::running_mean(4), nn::linear(4, 4))), nn::linear(4, 2));
  EXPECT_EQ(names_of(network.parameters()), (names{"0.weight [4, 3]", "0.bias [4]", "2.module.1.weight [4, 4]",
                                                   "2.module.1.bias [4]", "3.weight [2, 4]", "3.bias [2]"}));
  EXPECT_EQ(names_of(network.buffers()), names{"2.module.0.mean [4]"});
}

TEST(Composition, IsWhatItsPartsAre) {
  EXPECT_TRUE(nn::sequential(nn::linear(2, 2), nn::linear(2, 2)).runs_on_devices());
  EXPECT_FALSE(nn::sequential(nn::linear(2, 2), test::scale(2)).runs_on_devices());
  EXPECT_FALSE(nn::sequential(nn::linear(2, 2)).uses_key());
  EXPECT_TRUE(nn::residual(nn::sequential(nn::linear(2, 2), test::dropout())).uses_key());
}

TEST(Composition, NamesTheRangesOfItsParts) {
  const nn::sequential network(nn::linear(3, 4), nn::relu(), nn::sequential(nn::linear(4, 4), nn::linear(4, 1)));
  std::vector<std::size_t> firsts;
  for (const nn::parameter_range& one : network.ranges()) firsts.push_back(one.first);
  EXPECT_EQ(firsts, (std::vector<std::size_t>{0, 16, 36}));
}

/// Returns the outputs of a module with its initial numbers.
std::vector<float> outputs_of(const nn::module& of, const tensor& input, std::vector<float>& parameters) {
  parameters = nn::initial_numbers(of, 3).parameters;
  const auto tensors = nn::placed(of.parameters());
  const shape lengths = of.output(input);
  std::vector<float> outputs(lengths.count());
  std::vector<float> saved(of.saved(input, kernels::host_stream()));
  of.forward({.stream = kernels::host_stream()}, {.parameters = {parameters.data(), tensors},
                                                  .input = input,
                                                  .output = {outputs.data(), lengths},
                                                  .saved = saved});
  return outputs;
}

TEST(Composition, ComputesOneModuleAfterTheOther) {
  const std::vector<float> numbers = {0.5F, -1, 2, 1, 0.25F, -0.5F};
  const nn::sequential network(nn::linear(3, 4), nn::relu(), nn::residual(nn::linear(4, 4)));
  std::vector<float> p;
  const auto outputs = outputs_of(network, tensor::of<float>({2, 3}, numbers), p);
  ASSERT_EQ(outputs.size(), 8U);
  for (std::size_t row = 0; row < 2; ++row) {
    std::vector<double> hidden(4);
    for (std::size_t k = 0; k < 4; ++k) {
      double sum = p[12 + k];
      for (std::size_t j = 0; j < 3; ++j) sum += double{p[3 * k + j]} * double{numbers[3 * row + j]};
      hidden[k] = std::max(sum, 0.0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      double sum = hidden[k] + double{p[32 + k]};
      for (std::size_t j = 0; j < 4; ++j) sum += double{p[16 + 4 * k + j]} * hidden[j];
      EXPECT_NEAR(outputs[4 * row + k], sum, 1e-6);
    }
  }
}

TEST(Composition, GivesEqualPartsDifferentWeights) {
  const nn::sequential network(nn::linear(2, 2), nn::linear(2, 2));
  std::vector<float> p;
  const std::vector<float> ones = {1, 1};
  outputs_of(network, tensor::of<float>({1, 2}, ones), p);
  EXPECT_NE(std::vector<float>(p.begin(), p.begin() + 6), std::vector<float>(p.begin() + 6, p.end()));
}

TEST(Composition, GivesPartsTheNumbersOfTheWhole) {
  const nn::sequential network(nn::linear(3, 4), nn::relu(), nn::linear(4, 2), test::running_mean(2));
  const nn::sequential last = network.part(1, 3).part(1, 2);
  EXPECT_EQ(names_of(last.parameters()), (names{"2.weight [2, 4]", "2.bias [2]"}));
  EXPECT_EQ(names_of(last.buffers()), names{"3.mean [2]"});
  const std::vector<float> all = nn::initial_numbers(network, 3).parameters;
  const std::vector<float> some = nn::initial_numbers(last, 3).parameters;
  ASSERT_EQ(all.size(), 26U);
  EXPECT_EQ(some, std::vector<float>(all.begin() + 16, all.end()));

  nn::sequential joined = network.part(0, 2);
  joined.extend(network.part(2, 2));
  EXPECT_EQ(joined.size(), 4U);
  EXPECT_EQ(names_of(joined.parameters()), names_of(network.parameters()));
  EXPECT_ERROR(network.part(3, 2), "sequential: a part of 2 modules from 3 on; it has 4");
}

TEST(Relu, KeepsNaN) {
  std::vector<float> none;
  const std::vector<float> numbers = {-1, 2, std::nanf("")};
  const auto outputs = outputs_of(nn::relu(), tensor::of<float>({3}, numbers), none);
  EXPECT_EQ(outputs[0], 0);
  EXPECT_EQ(outputs[1], 2);
  EXPECT_TRUE(std::isnan(outputs[2]));
}

// -- buckets ------------------------------------------------------------------------------

task<> train_network(trainer me, double bucket_mib) {
  auto model = me.data_parallel(nn::sequential(nn::linear(3, 8), nn::relu(), nn::linear(8, 8), nn::linear(8, 2)),
                                {.bucket_mib = bucket_mib});
  distributed_optimizer optimizer(adam{.lr = 0.1}, model);
  const std::vector<std::int64_t> classes = {me.rank()};
  for (int step = 0; step < 10; ++step) {
    auto context = me.new_context();
    const std::vector<float> x = {1, static_cast<float>(me.rank()), static_cast<float>(step)};
    co_await context.backward(nn::cross_entropy(context, model(context, tensor::of<float>({1, 3}, x)), classes));
    co_await optimizer.step(context);
  }
}

TEST(Buckets, OfAnySizeGiveTheSameBits) {
  const auto digest = [](double bucket_mib) {
    test::made_cluster cluster;
    return cluster.run(2, train_network, bucket_mib).weights_digest;
  };
  EXPECT_EQ(digest(1e-6), digest(25));
  EXPECT_THROW(digest(0), error);
}

/// `count` buckets of gradients, and one of running means.
task<> make_buckets(trainer me, int count) {
  nn::sequential network;
  for (int i = 0; i < count; ++i) network.add(test::scale(1));
  network.add(test::running_mean(1));
  me.data_parallel(std::move(network), {.bucket_mib = 1e-6});
  co_return;
}

TEST(Buckets, OfBuffersCountToo) {
  EXPECT_EQ(test::error_of(1, make_buckets, 1023), "no error");
  EXPECT_EQ(
      test::error_of(1, make_buckets, 1024),
      "trainer 0, step 0: sequential: the trainer's modules have 1025 buckets or more, at most 1024 can be; use a "
      "larger bucket_mib than 1e-06");
}

using events = std::vector<std::string>;

/// Records when its parameters' gradient is computed.
class told_scale final : public test::scale {
 public:
  told_scale(std::string name, events& to) : scale(2), name_(std::move(name)), events_(&to) {}

  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    scale::backward(how, numbers, of);
    if (of.parameters) events_->push_back("gradient of " + name_);
  }

 private:
  std::string name_;
  events* events_;
};

TEST(Buckets, LeaveBeforeTheGradientsOfEarlierModulesAreComputed) {
  events happened;
  const nn::sequential network(told_scale("first", happened), nn::sequential(told_scale("second", happened)));
  std::vector<nn::parameter_range> ranges;
  for (const nn::parameter_range& one : network.ranges()) ranges.push_back({one.first, one.count});
  actors::trained_parameters numbers(ranges, kernels::host_device(), {.bucket_bytes = 1});
  const std::vector<float> ones(4, 1);
  numbers.start(ones, {});
  numbers.open(1);
  const tensor input = tensor::of<float>({1, 2}, std::span(ones).first(2));
  std::vector<float> output(2);
  std::vector<float> saved(network.saved(input, numbers.compute()));
  const auto parameters = nn::placed(network.parameters());
  const nn::pass how{.stream = numbers.compute()};
  const nn::pass_numbers all{.parameters = {numbers.weights_data(), parameters},
                             .input = input,
                             .output = {output.data(), input.shape()},
                             .saved = saved};
  network.forward(how, all);
  numbers.backward(
      1, true,
      [&](nn::gradient_places& places) {
        runtime::bucket_gradient buckets(numbers.compute(), places, nullptr);
        network.backward_parameters(how, all, {ones.data(), input.shape()}, buckets);
      },
      [&](std::uint32_t bucket) { happened.push_back("bucket " + std::to_string(bucket) + " leaves"); });
  EXPECT_EQ(happened, (events{"gradient of second", "bucket 0 leaves", "gradient of first", "bucket 1 leaves"}));
}

// -- random numbers and buffers -------------------------------------------------------------

/// Sums of dropout outputs, which count the kept numbers, and the weights' gradients of these sums.
struct kept_numbers {
  std::vector<double> sums = {};
  std::vector<float> weights = {};
  double in_evaluation = 0;
};

task<> drop(trainer me, kept_numbers* result) {
  auto model = me.data_parallel(nn::sequential(test::scale(64), test::dropout()));
  distributed_optimizer optimizer(sgd{.lr = 1}, model);
  tensor x({1, 64});
  std::ranges::fill(x.as<float>(), 1.0F);
  auto context = me.new_context();
  for (int pass = 0; pass < 2; ++pass) {
    const tensor all = sum(context, model(context, x));
    result->sums.push_back(all.item());
    co_await context.backward(all);
  }
  co_await optimizer.step(context);
  result->weights = model.parameters();
  auto evaluation = me.no_grad();
  result->in_evaluation = sum(evaluation, model(evaluation, x)).item();
}

TEST(RandomNumbers, AreThoseOfForwardInBackwardAndNoneInEvaluation) {
  kept_numbers result;
  test::made_cluster cluster;
  cluster.run(1, drop, &result);
  ASSERT_EQ(result.sums.size(), 2U);
  EXPECT_GT(result.sums[0], 0);
  EXPECT_LT(result.sums[0], 128);
  // A weight's gradient is 2 for each pass that kept its number.
  double gradients = 0;
  bool both_ways = false;
  for (const float one : result.weights) {
    gradients += 1 - static_cast<double>(one);
    both_ways = both_ways || one == -1;  // kept by one pass, dropped by the other: they have different keys
  }
  EXPECT_EQ(gradients, result.sums[0] + result.sums[1]);
  EXPECT_TRUE(both_ways);
  double weights = 0;
  for (const float one : result.weights) weights += static_cast<double>(one);
  EXPECT_EQ(result.in_evaluation, weights);
}

task<> track(trainer me, std::vector<double>* means) {
  auto model = me.data_parallel(nn::sequential(test::scale(1), test::running_mean(1)));
  tensor x({2, 1});
  x.as<float>()[0] = 1;
  x.as<float>()[1] = 3;
  const auto look = [&] {
    auto evaluation = me.no_grad();
    means->push_back(2 - mean(evaluation, model(evaluation, x)).item());
  };
  look();
  for (int pass = 0; pass < 3; ++pass) {
    auto context = me.new_context();
    model(context, x);
    look();
  }
  look();
  co_return;
}

TEST(Buffers, AreWrittenInTrainingPassesOnly) {
  std::vector<double> means;
  test::made_cluster cluster;
  cluster.run(1, track, &means);
  EXPECT_EQ(means, (std::vector<double>{0, 1, 1.5, 1.75, 1.75}));
}

}  // namespace
}  // namespace troupe::composition_test
