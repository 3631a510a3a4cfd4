// Optimizer steps with NaN, and gradient clipping, for parameters in all locations.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/troupe.hpp"

namespace troupe::spoilt_steps_test {
namespace {

using embedding_bag = nn::embedding_bag;
using test::made_cluster;

constexpr embedding_bag::options tutorial_table{.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum};

// -- NaN ------------------------------------------------------------------------------

constexpr int steps = 12;
constexpr int spoilt_step = 5;

enum class spoilt : std::uint8_t { nothing, loss_of_rank_1, left_out };

task<> train_spoilt(trainer me, remote_module<embedding_bag> embedding, spoilt what, std::atomic<int>* skipped) {
  auto model = me.data_parallel(nn::sequential(nn::linear(16, 8), nn::batch_norm({.channels = 8}), nn::linear(8, 8)));
  distributed_optimizer optimizer(sgd{.lr = 0.05, .momentum = 0.5}, embedding, model);
  const auto batches = tutorial_batches(1, me.rank(), 0);
  for (int step = 0; step < steps; ++step) {
    if (step == spoilt_step && what == spoilt::left_out) continue;
    const auto& [indices, offsets, target] = batches[static_cast<std::size_t>(step) % batches.size()];
    auto context = me.new_context();
    auto rows = co_await embedding.forward(context, indices, offsets);
    const bool is_spoilt = what == spoilt::loss_of_rank_1 && me.rank() == 1 && step == spoilt_step;
    if (is_spoilt) rows.as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    co_await context.backward(nn::cross_entropy(context, model(context, rows), target));
    co_await optimizer.step(context);
  }
  *skipped += static_cast<int>(me.skipped_steps());
}

std::string run_spoilt(const run_options& options, spoilt what, int expected_skipped) {
  made_cluster cluster({"--servers", "2"});
  const auto embedding = cluster.make<embedding_bag>(tutorial_table);
  std::atomic<int> skipped = 0;
  const std::string digest = cluster.run(options, train_spoilt, embedding, what, &skipped).weights_digest;
  EXPECT_EQ(skipped, expected_skipped);
  return digest;
}

TEST(SpoiltSteps, AStepWithNanIsLeftOutEverywhere) {
  const run_options skipping{.trainers = 2, .nan = nan_policy::skip};
  const std::string without = run_spoilt(skipping, spoilt::left_out, 0);
  EXPECT_EQ(run_spoilt(skipping, spoilt::loss_of_rank_1, 2), without);
  EXPECT_NE(run_spoilt(skipping, spoilt::nothing, 0), without);
  EXPECT_EQ(run_spoilt({.trainers = 2}, spoilt::left_out, 0), without);
}

TEST(SpoiltSteps, OtherwiseNanEndsTheRun) {
  const std::string text = test::error_of([] { run_spoilt({.trainers = 2}, spoilt::loss_of_rank_1, 0); });
  EXPECT_NE(text.find("trainer 1, step 6: the loss is NaN"), std::string::npos) << text;
}

/// Its gradient with respect to its first weight is Inf.
class endless final : public test::scale {
 public:
  using scale::scale;
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    scale::backward(how, numbers, of);
    if (of.parameters) of.parameters[0][0] = std::numeric_limits<float>::infinity();
  }
};

task<> train_endless(trainer me, int batches) {
  auto model = me.data_parallel(endless(2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  const std::vector<std::int64_t> target = {0};
  const std::vector<float> ones = {1, 1};
  for (int step = 0; step < batches; ++step) {
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, model(context, tensor::of<float>({1, 2}, ones)), target));
    co_await optimizer.step(context);
  }
}

TEST(SpoiltSteps, AGradientIsSearchedHoweverItsOptimizerStepEnds) {
  for (const int batches : {4, 6, 2}) {
    const std::string text = test::error_of([batches] {
      made_cluster cluster;
      cluster.run({.trainers = 2, .accumulate = 4}, train_endless, batches);
    });
    EXPECT_NE(text.find("scale: a dense gradient, weight [2], is Inf (number 0 of 2)"), std::string::npos)
        << batches << ": " << text;
  }
}

// -- clipping by hand -----------------------------------------------------------------

/// A table, a shared replica, each trainer's own replica, and a module on a server; each has the gradient that `scale`
/// and its sample give.
struct four_norms {
  std::array<std::vector<float>, 2> table;
  std::array<std::vector<float>, 2> shared;
  std::array<std::vector<float>, 2> own;
};

constexpr float lr = 0.5;

task<> clip_four(trainer me, remote_module<embedding_bag> embedding, four_norms* end) {
  auto shared = me.data_parallel(test::scale(2));
  auto own = me.data_parallel(test::scale(2), {.synchronized = false});
  distributed_optimizer optimizer(sgd{.lr = lr}, embedding, shared, own);
  const std::vector<std::int64_t> first = {0};
  auto context = me.new_context();
  const tensor rows = co_await embedding.forward(context, first, first);
  const tensor both = own(context, shared(context, rows));
  const std::vector<std::int64_t> target = {me.rank()};
  co_await context.backward(nn::cross_entropy(context, both, target));
  co_await optimizer.step(context);
  end->shared.at(me.rank()) = shared.parameters();
  end->own.at(me.rank()) = own.parameters();
  const tensor now = co_await embedding.rows(first, first);
  const auto numbers = now.as<float>();
  end->table.at(me.rank()) = {numbers.begin(), numbers.end()};
}

four_norms run_four(double clip_norm) {
  made_cluster cluster;
  const auto embedding = cluster.server(0).make<embedding_bag>(
      {.num_embeddings = 1, .embedding_dim = 2, .mode = nn::pooling::sum, .init = nn::uniform(1, 1)});
  four_norms end;
  cluster.run({.trainers = 2, .clip_norm = clip_norm}, clip_four, embedding, &end);
  return end;
}

TEST(SpoiltSteps, TheNormIsOfAllThatIsTrainedWhereverItIs) {
  const double p = 1 / (1 + std::exp(0.0));  // of each class: all weights are 1, and the row is [1, 1]
  // Rank r's gradient of the outputs is p - [class r]. Each factor is 1, so every gradient equals it.
  const std::array<std::array<double, 2>, 2> of_rank = {{{p - 1, p}, {p, p - 1}}};
  std::array<double, 2> sum{};
  std::array<double, 2> mean{};
  double squares = 0;
  for (int k = 0; k < 2; ++k) {
    sum[k] = of_rank[0][k] + of_rank[1][k];
    mean[k] = sum[k] / 2;
    squares += sum[k] * sum[k] + mean[k] * mean[k] + of_rank[0][k] * of_rank[0][k] + of_rank[1][k] * of_rank[1][k];
  }
  constexpr double limit = 0.25;
  ASSERT_GT(std::sqrt(squares), limit);
  const double factor = limit / std::sqrt(squares);
  const four_norms end = run_four(limit);
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_NEAR(end.table[rank].at(k), 1 - lr * factor * sum[k], 1e-5);
      EXPECT_NEAR(end.shared[rank].at(k), 1 - lr * factor * mean[k], 1e-5);
      EXPECT_NEAR(end.own[rank].at(k), 1 - lr * factor * of_rank[rank][k], 1e-5);
    }
}

}  // namespace
}  // namespace troupe::spoilt_steps_test
