// Replicas that are not synchronized: each trainer's steps apply its own gradient.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/library/arguments.hpp"
#include "troupe/troupe.hpp"

namespace troupe::local_replica_test {
namespace {

using test::arguments;

task<> train(trainer me, bool synchronized, std::vector<std::vector<float>>* weights) {
  auto model = me.data_parallel(nn::linear(2, 2), {.synchronized = synchronized});
  auto other = me.data_parallel(nn::linear(2, 2));  // both kinds in one optimizer
  distributed_optimizer optimizer(sgd{.lr = 0.5, .momentum = 0.9}, model, other);
  const std::vector<std::int64_t> target = {0, 1};
  const std::vector<float> features = {1, static_cast<float>(me.rank()), -1, 2};
  for (int step = 0; step < 5; ++step) {
    auto context = me.new_context();
    const tensor x = tensor::of<float>({2, 2}, features);
    co_await context.backward(nn::cross_entropy(context, model(context, x), target));
    co_await optimizer.step(context);
  }
  (*weights)[me.rank()] = model.parameters();
}

std::vector<std::vector<float>> trained(std::uint32_t trainers, bool synchronized) {
  arguments given{};
  cluster cluster(given.count(), given.values());
  std::vector<std::vector<float>> weights(trainers);
  cluster.run(trainers, train, synchronized, &weights);
  return weights;
}

task<> make_without_name(trainer me) {
  data_parallel_options chosen;
  chosen.name = nullptr;
  const auto model = me.data_parallel(nn::linear(2, 1), chosen);
  EXPECT_EQ(model.parameters().size(), 3U);
  co_return;
}

TEST(LocalReplica, NeedsNoName) {
  arguments given{};
  cluster cluster(given.count(), given.values());
  cluster.run(1, make_without_name);
}

TEST(LocalReplica, IsTrainedAsATrainerAloneTrainsIt) {
  const auto local = trained(3, false);
  const auto alone = trained(1, true);
  EXPECT_EQ(local[0], alone[0]);
  EXPECT_NE(local[1], alone[0]);
  EXPECT_NE(local[1], local[2]);
  const auto together = trained(3, true);
  EXPECT_EQ(together[0], together[2]);
  EXPECT_NE(together[0], alone[0]);
}

}  // namespace
}  // namespace troupe::local_replica_test
