// Replicas that are not synchronized, whose steps apply each trainer's own gradient, and replicas that only some
// trainers synchronize.

#include <gtest/gtest.h>

#include <vector>

#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::local_replica_test {
namespace {

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
  test::made_cluster cluster;
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

task<> make_among_and_apart(trainer me) {
  me.data_parallel(nn::linear(2, 1), {.synchronized = false, .group = me.group()});
  co_return;
}

TEST(LocalReplica, IsNotAmongTrainersAndApart) {
  EXPECT_EQ(test::error_of(1, make_among_and_apart),
            "trainer 0, step 0: data_parallel: linear with a group, and not synchronized; leave out one or the "
            "other");
}

TEST(LocalReplica, NeedsNoName) {
  test::made_cluster cluster;
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

/// `first_other`: the rank that has a group of its own, if any.
task<> train_among(trainer me, std::uint32_t first_other, float apart, std::vector<std::vector<float>>* weights) {
  const bool is_other = me.rank() == first_other;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < me.trainers(); ++rank)
    if ((rank == first_other) == is_other) ranks.push_back(rank);
  auto model = me.data_parallel(nn::linear(2, 2), {.group = me.group().subgroup(ranks)});
  auto all = me.data_parallel(nn::linear(2, 2));  // both kinds in one optimizer
  all.load_state_dict(model.state_dict());
  distributed_optimizer optimizer(sgd{.lr = 0.5, .momentum = 0.9}, model, all);
  const std::vector<std::int64_t> target = {0, 1};
  const std::vector<float> features = {1, static_cast<float>(me.rank()) * apart, -1, 2};
  for (int step = 0; step < 5; ++step) {
    auto context = me.new_context();
    const tensor x = tensor::of<float>({2, 2}, features);
    const tensor loss = add(context, nn::cross_entropy(context, model(context, x), target),
                            nn::cross_entropy(context, all(context, x), target));
    if (step != 3 || me.rank() != 0) co_await context.backward(loss);  // trainer 0 has no batch there
    co_await optimizer.step(context);
  }
  (*weights)[me.rank()] = model.parameters();
  const std::vector<float> more = all.parameters();
  (*weights)[me.rank()].insert((*weights)[me.rank()].end(), more.begin(), more.end());
}

TEST(LocalReplica, IsTrainedWithSomeTrainersAsTheyAloneTrainIt) {
  const auto run = [](std::uint32_t trainers, std::uint32_t first_other, float apart) {
    test::made_cluster cluster;
    std::vector<std::vector<float>> weights(trainers);
    cluster.run(trainers, train_among, first_other, apart, &weights);
    return weights;
  };
  const auto of = [](const std::vector<float>& weights, bool of_all) {
    return std::vector<float>(weights.begin() + (of_all ? 6 : 0), weights.end() - (of_all ? 0 : 6));
  };
  const auto some = run(3, 1, 1);          // 0 and 2 together, and 1
  const auto two = run(2, UINT32_MAX, 2);  // trainers with the data of 0 and 2
  EXPECT_EQ(of(two[0], false), of(two[0], true)) << "a group of all is all";
  EXPECT_EQ(of(some[0], false), of(two[0], false));
  EXPECT_EQ(of(some[2], false), of(two[0], false));
  EXPECT_NE(of(some[1], false), of(two[0], false));
  for (const auto& one : some) EXPECT_EQ(of(one, true), of(some[0], true));
}

}  // namespace
}  // namespace troupe::local_replica_test
