// Several passes in a context before an optimizer step, trainers without data, and contexts that do not train.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/troupe.hpp"

namespace troupe::accumulation_test {
namespace {

using embedding_bag = nn::embedding_bag;
using test::scale;

constexpr std::size_t samples = 4;

/// A batch: a row of the table for each sample, and its class.
struct batch {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> classes;
};

/// Samples [first, end) of a step's batch.
batch part_of(std::uint32_t rank, int step, std::size_t first, std::size_t end) {
  batch all;
  for (std::size_t i = first; i < end; ++i) {
    all.offsets.push_back(static_cast<std::int64_t>(i - first));
    all.indices.push_back(static_cast<std::int64_t>((7 * step + 3 * i + 5 * rank) % 10));
    all.classes.push_back(static_cast<std::int64_t>((step + i + rank) % 2));
  }
  return all;
}

/// A trainer's results: its replica's parameters, and the table's rows.
struct numbers {
  std::vector<float> parameters = {};
  std::vector<float> rows = {};
};

task<> read(trainer me, remote_module<embedding_bag> table, data_parallel model, numbers* result) {
  auto context = me.no_grad();
  std::vector<std::int64_t> all(10);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const tensor rows = co_await table.forward(context, all, all);
  result->rows.assign(rows.as<float>().begin(), rows.as<float>().end());
  result->parameters = model.parameters();
}

/// Trains on batches that are split into `parts` passes.
task<> train_in_parts(trainer me, remote_module<embedding_bag> table, std::size_t parts, numbers* result) {
  auto model = me.data_parallel(nn::linear(3, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.5, .momentum = 0.9}, table, model);
  for (int step = 0; step < 6; ++step) {
    auto context = me.new_context();
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t each = samples / parts;
      const batch now = part_of(me.rank(), step, part * each, (part + 1) * each);
      const tensor rows = co_await table.forward(context, now.indices, now.offsets);
      co_await context.backward(nn::cross_entropy(context, model(context, rows), now.classes),
                                1.0 / static_cast<double>(parts));
    }
    co_await optimizer.step(context);
  }
  if (me.rank() == 1) co_await read(me, table, model, result);
}

/// Returns the weights' digest, or the error.
template <class Function, class... Arguments>
std::string run_on(cluster& on, std::uint32_t trainers, Function function, Arguments... arguments) {
  try {
    return on.run(trainers, function, arguments...).weights_digest;
  } catch (const error& e) {
    return e.what();
  }
}

template <class Function, class... More>
std::string run(std::uint32_t trainers, const embedding_bag::options& options, Function function, More... more) {
  test::made_cluster cluster;
  return run_on(cluster, trainers, function, cluster.server(0).make<embedding_bag>(options), more...);
}

/// Runs without a table.
template <class Function, class... More>
std::string run_alone(std::uint32_t trainers, Function function, More... more) {
  test::made_cluster cluster;
  return run_on(cluster, trainers, function, more...);
}

constexpr embedding_bag::options ten_rows{.num_embeddings = 10, .embedding_dim = 3, .mode = nn::pooling::sum};

void expect_near(const std::vector<float>& some, const std::vector<float>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_NEAR(some[i], others[i], 2e-6) << i;
}

TEST(Accumulation, OfPartsIsTheGradientOfTheWholeBatch) {
  for (const auto reduce : {nn::reduction::sum, nn::reduction::mean}) {
    embedding_bag::options options = ten_rows;
    options.reduce = reduce;
    std::array<numbers, 3> results;
    run(2, options, train_in_parts, 1UL, &results[0]);
    run(2, options, train_in_parts, 2UL, &results[1]);
    run(2, options, train_in_parts, 4UL, &results[2]);
    ASSERT_EQ(results[0].rows.size(), 30U);
    ASSERT_EQ(results[0].parameters.size(), 8U);
    for (const auto& other : {results[1], results[2]}) {
      expect_near(other.parameters, results[0].parameters);
      expect_near(other.rows, results[0].rows);
    }
  }
}

task<> train_on_two_losses(trainer me, bool in_order, std::vector<float>* weights) {
  auto model = me.data_parallel(scale(2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, model);
  const std::vector<std::int64_t> classes = {0};
  const std::vector<float> first = {1, 2};
  const std::vector<float> second = {3, -1};
  auto context = me.new_context();
  const tensor a = model(context, tensor::of<float>({1, 2}, first));
  const tensor b = model(context, tensor::of<float>({1, 2}, second));
  const tensor loss_of_a = nn::cross_entropy(context, a, classes);
  const tensor loss_of_b = nn::cross_entropy(context, b, classes);
  co_await context.backward(in_order ? loss_of_a : loss_of_b);
  co_await context.backward(in_order ? loss_of_b : loss_of_a, 0.5);
  co_await optimizer.step(context);
  *weights = model.parameters();
}

TEST(Accumulation, GoesBackFromLossesOfPassesThatWereMadeBefore) {
  // The gradient of softmax cross-entropy is p - [class]; here with respect to the weights, so times the features.
  const auto gradient = [](double x0, double x1) {
    const double p = 1 / (1 + std::exp(x1 - x0));
    return std::array<double, 2>{(p - 1) * x0, (1 - p) * x1};
  };
  for (const bool in_order : {true, false}) {
    std::vector<float> weights;
    run_alone(1, train_on_two_losses, in_order, &weights);
    ASSERT_EQ(weights.size(), 2U);
    for (std::size_t k = 0; k < 2; ++k) {
      const double sum = (in_order ? 1 : 0.5) * gradient(1, 2)[k] + (in_order ? 0.5 : 1) * gradient(3, -1)[k];
      EXPECT_NEAR(weights[k], 1 - 0.5 * sum, 1e-6);
    }
  }
}

/// Reports for each pass whether its input was freed once the next pass existed.
task<> watch_memory(trainer me, std::vector<bool>* freed) {
  auto model = me.data_parallel(nn::linear(3, 2));
  distributed_optimizer optimizer(sgd{}, model);
  const std::vector<std::int64_t> classes = {0};
  auto context = me.new_context();
  std::weak_ptr<std::byte> before;
  for (int pass = 0; pass < 4; ++pass) {
    tensor x({1, 3});
    std::ranges::fill(x.as<float>(), 1.0F);
    const std::weak_ptr<std::byte> now = x.owner();
    const tensor y = model(context, x);
    if (pass > 0) freed->push_back(before.expired());
    before = now;
    co_await context.backward(nn::cross_entropy(context, y, classes));
  }
  co_await optimizer.step(context);
  freed->push_back(before.expired());
}

TEST(Accumulation, FreesThePassesThatAreOver) {
  std::vector<bool> freed;
  run_alone(1, watch_memory, &freed);
  EXPECT_EQ(freed, std::vector<bool>(4, true));
}

task<> go_back_twice(trainer me) {
  auto model = me.data_parallel(nn::linear(3, 2));
  const std::vector<std::int64_t> classes = {0};
  auto context = me.new_context();
  tensor x({1, 3});
  std::ranges::fill(x.as<float>(), 1.0F);
  const tensor y = model(context, x);
  co_await context.backward(nn::cross_entropy(context, y, classes));
  co_await context.backward(nn::cross_entropy(context, y, classes));
}

TEST(Accumulation, RefusesASecondWayBackThroughTheSamePass) {
  EXPECT_EQ(run_alone(1, go_back_twice),
            "trainer 0, step 1: a second way back through what a context has computed; compute it again for the second "
            "loss, or go back once from the sum of both (add)");
}

// -- trainers without data ----------------------------------------------------------------

/// Trainer 1 has data only in the first two of four steps. The outputs are the rows; all samples use row 0.
task<> end_unevenly(trainer me, remote_module<embedding_bag> table, numbers* result) {
  auto model = me.data_parallel(scale(2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, table, model);
  const std::vector<std::int64_t> zero = {0};
  for (int step = 0; step < 4; ++step) {
    auto context = me.new_context();
    if (me.rank() == 0 || step < 2) {
      const tensor rows = co_await table.forward(context, zero, zero);
      co_await context.backward(nn::cross_entropy(context, model(context, rows), zero));
    }
    co_await optimizer.step(context);
  }
  if (me.rank() == 1) co_await read(me, table, model, result);
}

TEST(UnevenEnds, TakeMeansOverTheTrainersThatHadABatch) {
  for (const auto reduce : {nn::reduction::sum, nn::reduction::mean}) {
    const embedding_bag::options options{
        .num_embeddings = 10, .embedding_dim = 2, .mode = nn::pooling::sum, .reduce = reduce};
    numbers before;
    numbers after;
    run(
        1, options,
        [](trainer me, remote_module<embedding_bag> table, numbers* to) -> task<> {
          co_await read(me, table, me.data_parallel(scale(2)), to);
        },
        &before);
    run(2, options, end_unevenly, &after);
    ASSERT_EQ(after.rows.size(), 20U);
    std::array<double, 2> row = {before.rows[0], before.rows[1]};
    std::array<double, 2> weight = {1, 1};
    for (int step = 0; step < 4; ++step) {
      // Both trainers have the same sample, so the mean equals one trainer's gradient, and a sum twice that.
      const double p = 1 / (1 + std::exp(weight[1] * row[1] - weight[0] * row[0]));
      const double times = reduce == nn::reduction::sum && step < 2 ? 2 : 1;
      for (std::size_t k = 0; k < 2; ++k) {
        const double of_output = k == 0 ? p - 1 : 1 - p;
        const double of_row = times * of_output * weight[k];
        weight[k] -= 0.5 * of_output * row[k];
        row[k] -= 0.5 * of_row;
      }
    }
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_NEAR(after.rows[k], row[k], 1e-6);
      EXPECT_NEAR(after.parameters[k], weight[k], 1e-6);
    }
  }
}

task<> leave_one_out(trainer me, std::vector<float>* weights) {
  auto always = me.data_parallel(scale(2));
  auto sometimes = me.data_parallel(scale(2));
  distributed_optimizer optimizer(sgd{.lr = 1}, always, sometimes);
  const std::vector<std::int64_t> classes = {0};
  const std::vector<float> ones = {1, 1};
  auto context = me.new_context();
  tensor x = always(context, tensor::of<float>({1, 2}, ones));
  if (me.rank() == 0) x = sometimes(context, x);
  co_await context.backward(nn::cross_entropy(context, x, classes));
  co_await optimizer.step(context);
  if (me.rank() == 1) *weights = sometimes.parameters();
}

TEST(UnevenEnds, CountATrainerWhoseLossDoesNotUseAModule) {
  std::vector<float> weights;
  run_alone(2, leave_one_out, &weights);
  // The gradient of trainer 0 is p - [class] with p = 1/2; that of trainer 1 is 0.
  EXPECT_EQ(weights, (std::vector<float>{1.25F, 0.75F}));
}

// -- contexts that do not train -----------------------------------------------------------

task<> misuse_evaluation(trainer me, bool steps) {
  auto model = me.data_parallel(nn::linear(3, 2));
  distributed_optimizer optimizer(sgd{}, model);
  auto context = me.no_grad();
  const std::vector<std::int64_t> classes = {0};
  tensor x({1, 3});
  std::ranges::fill(x.as<float>(), 1.0F);
  const tensor loss = nn::cross_entropy(context, model(context, x), classes);
  if (steps) co_await optimizer.step(context);
  co_await context.backward(loss);
}

TEST(Evaluation, HasNoWayBackAndNoStep) {
  EXPECT_EQ(run_alone(1, misuse_evaluation, false),
            "trainer 0, step 0: backward in a context of no_grad(), which remembers nothing; train in one of "
            "new_context()");
  EXPECT_EQ(run_alone(1, misuse_evaluation, true),
            "trainer 0, step 0: an optimizer step in a context of no_grad(), which remembers nothing; train in one of "
            "new_context()");
}

task<> train_and_evaluate(trainer me, remote_module<embedding_bag> table, bool evaluates) {
  auto model = me.data_parallel(nn::linear(3, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, table, model);
  for (int step = 0; step < 6; ++step) {
    const batch now = part_of(me.rank(), step, 0, samples);
    auto context = me.new_context();
    const tensor rows = co_await table.forward(context, now.indices, now.offsets);
    const tensor loss = nn::cross_entropy(context, model(context, rows), now.classes);
    if (evaluates) {
      auto test = me.no_grad();
      const tensor same = co_await table.forward(test, now.indices, now.offsets);
      const tensor again = nn::cross_entropy(test, model(test, same), now.classes);
      if (again.item() != loss.item()) throw std::runtime_error("evaluated to another loss");
    }
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
}

TEST(Evaluation, ChangesNothing) {
  EXPECT_EQ(run(2, ten_rows, train_and_evaluate, true), run(2, ten_rows, train_and_evaluate, false));
}

}  // namespace
}  // namespace troupe::accumulation_test
