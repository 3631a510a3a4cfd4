// A replica alone: the test acts as the group that averages its buckets, and knows the results by hand.

#include "actors/trainer/dense_replica.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "tests/actors/two_towers.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::dense_replica_test {
namespace {

using kernels::test::same_bits;

model::optimizer_spec sgd(double lr) {
  model::optimizer_spec spec;
  spec.lr = lr;
  return spec;
}

model::optimizer_spec adam() {
  model::optimizer_spec spec;
  spec.options = model::adam_options();
  spec.lr = 0.1;
  return spec;
}

/// Two towers of one dimension, y = w u v + c, initially with w = 2 and c = 1; one bucket each.
struct small {
  explicit small(const trained_parameters::options& options = {.optimizer = sgd(0.5)},
                 const char* grad_input_name = "the gradient of the input")
      : replica(network_of(net, 1), squared_error, kernels::host_device(),
                {.parameters = with_small_buckets(options), .grad_input_name = grad_input_name}) {
    replica.start(std::vector<float>{2, 1});
  }

  static trained_parameters::options with_small_buckets(trained_parameters::options options) {
    options.bucket_bytes = 1;
    return options;
  }

  /// Runs a batch up to its loss. `pairs`: u and v, alternating.
  double pass(std::vector<float> pairs_given, std::vector<float> targets_given, std::uint64_t step = 1) {
    pairs = std::move(pairs_given);
    targets = std::move(targets_given);
    replica.begin_pass({.step = step,
                        .size = targets.size(),
                        .input = pairs.data(),
                        .values = targets,
                        .key = 77,
                        .wants_grad_input = true});
    return replica.end_pass().loss;
  }

  /// Gives each bucket back as its own mean.
  void alone() {
    for (std::uint32_t i = 0; i < replica.buckets(); ++i) replica.take(i, replica.share(i, 0));
  }

  std::vector<float> weights() {
    const msg::tensor now = replica.weights();
    const auto numbers = now.as<float>();
    return {numbers.begin(), numbers.end()};
  }

  std::vector<float> pairs;  ///< the backward pass also reads these
  std::vector<float> targets;
  std::shared_ptr<const two_towers> net = std::make_shared<two_towers>(1);
  dense_replica replica;
};

// y = 2·3·1 + 1 = 7 against 5: the loss is 4, dy = 4, dw = 4·3 = 12, dc = 4, du = 4·2·1 = 8, dv = 4·2·3 = 24.
TEST(DenseReplica, AStepIsWhatTheChainRuleSays) {
  small s;
  s.replica.open(1);
  const std::vector<float> pairs = {3, 1};
  EXPECT_EQ(s.pass(pairs, {5}), 4.0);
  const float* grad_input = s.replica.grad_input().host();
  EXPECT_EQ(grad_input[0], 8.0F);
  EXPECT_EQ(grad_input[1], 24.0F);
  std::vector<std::uint32_t> order;
  s.replica.backward_parameters(true, [&](std::uint32_t bucket) {
    order.push_back(bucket);
    const msg::tensor share = s.replica.share(bucket, 0);
    EXPECT_TRUE(s.replica.is_reducing(bucket));
    if (bucket < 2) {
      EXPECT_EQ(share.as<float>()[0], bucket == 0 ? 4.0F : 12.0F) << "the last layer's bucket is the first";
    } else {
      EXPECT_EQ(share.as<float>()[0], 101.0F) << "the network's buffer comes last";
    }
    s.replica.take(bucket, share);
    EXPECT_FALSE(s.replica.is_reducing(bucket));
  });
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(s.weights(), (std::vector<float>{2 - 0.5F * 12, 1 - 0.5F * 4}));
}

TEST(DenseReplica, AMeanFromTheGroupIsAppliedWhateverTheShareWas) {
  small s;
  s.replica.open(1);
  s.pass({3, 1}, {5});
  s.replica.backward_parameters(true, [&](std::uint32_t bucket) { s.replica.share(bucket, 0); });
  s.replica.take(1, msg::tensor::own(1, 1, std::vector<float>{0.5F}));
  s.replica.take(0, msg::tensor::own(1, 1, std::vector<float>{-8}));
  EXPECT_EQ(s.weights(), (std::vector<float>{1.75F, 5}));
}

// The second batch, y = 2·1·1 + 1 = 3 against 2: dy = 2, dw = 2, dc = 2.
TEST(DenseReplica, BatchesOfAnOptimizerStepAreSummedAndCounted) {
  small s;
  s.replica.open(1);
  s.pass({3, 1}, {5});
  s.replica.backward_parameters(false, [](std::uint32_t) { FAIL() << "no bucket leaves before the last batch"; });
  s.pass({1, 1}, {2}, 2);
  s.replica.backward_parameters(true, [](std::uint32_t) {});
  EXPECT_EQ(s.replica.batches(), 2U);
  EXPECT_EQ(s.replica.share(0, 0).as<float>()[0], 6.0F);
  EXPECT_EQ(s.replica.share(1, 0).as<float>()[0], 14.0F);
}

// Three samples in two micro-batches: y = 2·3·1 + 1 = 7 against 4, 3 against 0, then 3 against 6. The loss is
// (9 + 9 + 9)/3, dy = 2/3·(3, 3, -3) = (2, 2, -2), so dc = 2 and dw = 2·3 + 2·1 - 2·1 = 6.
TEST(DenseReplica, MicroBatchesAreOneBatchWithSeveralPasses) {
  const auto net = std::make_shared<const two_towers>(1);
  dense_replica replica(network_of(net, 1), squared_error, kernels::host_device(),
                        {.parameters = small::with_small_buckets({.optimizer = sgd(0.5)}), .micro_batches = 2});
  replica.start(std::vector<float>{2, 1});
  replica.open(1);
  const std::vector<float> pairs = {3, 1, 1, 1, 1, 1};
  const std::vector<float> targets = {4, 0, 6};
  replica.begin_pass({.step = 1, .size = 3, .input = pairs.data(), .values = targets, .wants_grad_input = true});
  EXPECT_EQ(net->last_pass.first_sample, 2U) << "the first part has two of three";
  EXPECT_EQ(replica.end_pass().loss, 9.0);
  const float* of_input = replica.grad_input().host();
  EXPECT_EQ(std::vector<float>(of_input, of_input + 6), (std::vector<float>{4, 12, 4, 4, -4, -4}));
  std::vector<std::uint32_t> order;
  replica.backward_parameters(true, [&](std::uint32_t bucket) { order.push_back(bucket); });
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2})) << "each when the last part is added";
  EXPECT_EQ(replica.batches(), 1U);
  EXPECT_EQ(replica.share(0, 0).as<float>()[0], 2.0F);
  EXPECT_EQ(replica.share(1, 0).as<float>()[0], 6.0F);
  EXPECT_EQ(replica.share(2, 0).as<float>()[0], 102.0F) << "its buffer counts passes";
}

TEST(DenseReplica, ASpoiltBatchMakesTheSharesNan) {
  small s;
  s.replica.open(1);
  s.pass({std::numeric_limits<float>::infinity(), 1}, {5});
  s.replica.poison();
  for (std::uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(std::isnan(s.replica.share(i, 0).as<float>()[0]));
  EXPECT_EQ(s.replica.batches(), 1U);
}

// The gradient is (12, 4); its squared norm 160.
TEST(DenseReplica, WholeMeansWaitForAFactor) {
  small s({.optimizer = sgd(0.5), .applies_whole = true});
  s.replica.open(1);
  s.pass({3, 1}, {5});
  s.replica.backward_parameters(true, [](std::uint32_t) {});
  s.alone();
  EXPECT_EQ(s.weights(), (std::vector<float>{2, 1})) << "nothing is applied yet";
  EXPECT_EQ(s.replica.mean_squared_norm().value(), 160.0);
  s.replica.apply(0.25F);
  EXPECT_EQ(s.weights(), (std::vector<float>{2 - 0.5F * 3, 1 - 0.5F * 1}));
}

TEST(DenseReplica, ItGoesOnFromItsStateWithTheSameBits) {
  const auto step = [](small& s, std::uint64_t update) {
    s.replica.open(update);
    s.pass({3, 1, 0.5F, static_cast<float>(update)}, {5, -1}, update);
    s.replica.backward_parameters(true, [](std::uint32_t) {});
    s.alone();
    EXPECT_FALSE(s.replica.check_finite(update));
  };
  small whole({.optimizer = adam()});
  small before({.optimizer = adam()});
  for (const std::uint64_t update : {1, 2}) {
    step(whole, update);
    step(before, update);
  }
  const auto saved = before.replica.state();
  ASSERT_EQ(saved.size(), 4U) << "weights, two moments, and the network's buffer";
  EXPECT_EQ(saved[3].as<float>()[0], 102.0F) << "which began with 100 and has seen two training passes";
  small after({.optimizer = adam()});
  ASSERT_TRUE(after.replica.restore(saved));
  step(whole, 3);
  step(after, 3);
  EXPECT_TRUE(kernels::test::same_bits(whole.weights(), after.weights()));
  EXPECT_FALSE(kernels::test::same_bits(before.weights(), after.weights()));

  const auto kept = after.weights();
  EXPECT_FALSE(after.replica.restore({saved.begin(), saved.end() - 1}));
  auto other = saved;
  other[1] = msg::tensor::own(3, 1, std::vector<float>(3));
  EXPECT_FALSE(after.replica.restore(other));
  EXPECT_TRUE(kernels::test::same_bits(kept, after.weights())) << "what is refused changes nothing";
}

TEST(DenseReplica, AGradientThatIsNotFiniteIsNamedWithItsStep) {
  small s({.optimizer = sgd(1)}, "the gradient of the towers");
  s.replica.open(1);
  s.pass({1e30F, 1e30F, 1, 1}, {0, 0}, 9);
  const auto found = s.replica.check_finite(9);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 9U);
  EXPECT_EQ(std::string(found->what), "the gradient of the towers");
  EXPECT_EQ(found->count, 4U);

  small unwatched({.optimizer = sgd(1), .watches = false});
  unwatched.replica.open(1);
  unwatched.pass({1e30F, 1e30F, 1, 1}, {0, 0}, 9);
  EXPECT_FALSE(unwatched.replica.check_finite(9));
}

// As above, 4; and y = 2·1·1 + 1 = 3 against 2.
TEST(DenseReplica, ALossMayBeTakenWhenTheNextPassHasBegun) {
  small s;
  s.replica.open(1);
  const std::vector<float> first = {3, 1};
  const std::vector<float> second = {1, 1, 1, 1};
  const std::vector<float> targets = {5, 2, 2};
  s.replica.begin_pass({.step = 7, .size = 1, .input = first.data(), .values = {targets.data(), 1}});
  s.replica.backward_parameters(false, [](std::uint32_t) {});
  s.replica.begin_pass({.step = 8, .size = 2, .input = second.data(), .values = {targets.data() + 1, 2}});
  EXPECT_EQ(s.replica.open_passes(), 2U);
  for (const auto& [step, size, loss] : {std::tuple(7U, 1U, 4.0), std::tuple(8U, 2U, 1.0)}) {
    const auto ended = s.replica.end_pass();
    EXPECT_EQ(ended.step, step);
    EXPECT_EQ(ended.size, size);
    EXPECT_EQ(ended.loss, loss);
  }
  EXPECT_EQ(s.replica.open_passes(), 0U);
}

TEST(DenseReplica, WhatIsScoredIsNoTrainingPass) {
  small s;
  s.replica.open(1);
  s.pass({3, 1}, {5});
  EXPECT_TRUE(s.net->last_pass.training);
  EXPECT_EQ(s.net->last_pass.key, 77U);
  const std::vector<float> pairs = {1, 2, 3, 4};
  const auto outputs = s.replica.outputs(1, 2, pairs.data());
  EXPECT_FALSE(s.net->last_pass.training);
  EXPECT_EQ(std::vector<float>(outputs.begin(), outputs.end()), (std::vector<float>{5, 25}));
  EXPECT_EQ(s.replica.state().back().as<float>()[0], 101.0F) << "the buffer has seen one training pass";
  EXPECT_FALSE(s.replica.check_finite(1));
  const std::vector<float> bad = {std::numeric_limits<float>::quiet_NaN(), 2};
  s.replica.outputs(1, 1, bad.data());
  EXPECT_TRUE(s.replica.check_finite(1));
}

TEST(DenseReplicaDeathTest, AnOrderThatCannotBeIsABug) {
  small s;
  EXPECT_DEATH(s.replica.share(0, 0), "assertion failed: may_follow");
  s.replica.open(1);
  EXPECT_DEATH(s.replica.open(2), "assertion failed: may_follow");
  EXPECT_DEATH(s.replica.take(0, {}), "assertion failed: may_follow");
  EXPECT_DEATH(s.replica.begin_pass({}), "assertion failed: batch.size > 0");
  const std::vector<float> pair = {3, 1};
  for (const std::uint64_t step : {1, 2})
    s.replica.begin_pass({.step = step, .size = 1, .input = pair.data(), .values = {pair.data(), 1}});
  EXPECT_DEATH(s.replica.begin_pass({.step = 3, .size = 1, .input = pair.data(), .values = {pair.data(), 1}}),
               "assertion failed: open_");
  EXPECT_DEATH(s.replica.start(std::vector<float>(3)), "assertion failed: parameters.size");
}

}  // namespace
}  // namespace troupe::actors::dense_replica_test
