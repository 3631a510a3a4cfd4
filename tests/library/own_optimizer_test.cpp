// Optimizers that a program adds for jobs and programs: the same bits as the library's with the same formula, and
// closed forms.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "kernels/device.hpp"
#include "model/embedding_bag.hpp"
#include "model/job.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_optimizers.hpp"
#include "tests/model/parsed_job.hpp"

namespace troupe::own_optimizer_test {
namespace {

using settings = std::vector<model::setting>;

std::string digest_of(const settings& more, const std::string& dense, const std::string& sparse) {
  settings all = test::short_job(more);
  all.insert(all.end(), {{"dense-optimizer", dense}, {"sparse-optimizer", sparse}});
  const auto ended = nodes::run_job(model::parsed(all), {}, nullptr);
  EXPECT_TRUE(ended) << (ended ? "" : ended.error().message);
  return ended ? ended->weights_digest : "";
}

// -- the same formulas ----------------------------------------------------------------------

TEST(OwnOptimizers, TrainJobsToTheBitsOfTheSameFormulas) {
  test::add_own_optimizers();
  for (const settings& how : std::vector<settings>{
           {},
           {{"servers", "3"}},
           {{"servers", "3"}, {"table-split", "columns"}},
           {{"servers", "2"}, {"row-dtype", "f16"}},
           {{"servers", "2"}, {"row-dtype", "bf16"}, {"wire-dtype", "bf16"}, {"table-split", "columns"}},
           {{"lr-schedule", "warmup:4+cosine:8"}, {"accumulate", "2"}},
           {{"clip-norm", "0.01"}, {"nan", "skip"}, {"sparse-reduce", "sum"}},
           {{"pipeline", "2"}, {"micro-batches", "2"}},
           {{"tensor-parallel", "2"}},
           {{"bucket-mib", "0.0001"}}}) {
    SCOPED_TRACE(how.empty() ? "" : how[0].first + " " + how[0].second);
    const std::string expected = digest_of(how, "sgd:momentum=0.75", "adagrad:eps=1e-6,initial_accumulator_value=0.5");
    EXPECT_EQ(expected.size(), 16U);
    EXPECT_EQ(digest_of(how, "own-momentum:momentum=0.75", "own-adagrad:eps=1e-6,initial=0.5"), expected);
    const std::string other = digest_of(how, "adagrad:eps=1e-6", "lazy-sgd:momentum=0.75");
    EXPECT_NE(other, expected);
    EXPECT_EQ(digest_of(how, "own-adagrad:eps=1e-6", "own-momentum:momentum=0.75"), other);
  }
}

TEST(OwnOptimizers, TrainWhereLookupsDoNotWait) {
  test::add_own_optimizers();
  for (const char* consistency : {"ssp:2", "async"})
    EXPECT_EQ(digest_of({{"consistency", consistency}}, "own-momentum", "own-adagrad").size(), 16U) << consistency;
}

task<> train(trainer me, remote_module<nn::embedding_bag> table, remote_module<nn::linear> far,
             optimizer_choice of_dense, optimizer_choice of_rows, std::vector<float>* weights) {
  auto last = me.data_parallel(nn::linear(5, 3));
  distributed_optimizer optimizer(of_dense, far, last);
  optimizer.add(of_rows, table);
  const std::vector<std::int64_t> classes = {0, 2};
  const std::vector<std::int64_t> offsets = {0, 2};
  for (std::int64_t step = 0; step < 6; ++step) {
    auto context = me.new_context();
    const std::vector<std::int64_t> rows = {step, me.rank() + 1, step};
    const tensor pooled = co_await table.forward(context, rows, offsets);
    const tensor hidden = co_await far.forward(context, pooled);
    co_await context.backward(nn::cross_entropy(context, last(context, hidden), classes));
    co_await optimizer.step(context);
  }
  if (me.rank() != 0) co_return;
  *weights = last.parameters();
  const named_tensors of_table = co_await table.state_dict();
  const named_tensors of_far = co_await far.state_dict();
  for (const auto* state : {&of_table, &of_far})
    for (const auto& [name, numbers] : *state) {
      const auto all = numbers.as<float>();
      weights->insert(weights->end(), all.begin(), all.end());
    }
}

std::vector<float> trained_by(const optimizer_choice& of_dense, const optimizer_choice& of_rows) {
  test::made_cluster cluster({"--servers", "2"});
  const auto table = cluster.make<nn::embedding_bag>({.num_embeddings = 9, .embedding_dim = 6});
  const auto far = cluster.server(1).make<nn::linear>({.in_features = 6, .out_features = 5});
  std::vector<float> weights;
  cluster.run(2, train, table, far, of_dense, of_rows, &weights);
  return weights;
}

TEST(OwnOptimizers, TrainProgramsToTheBitsOfTheSameFormulas) {
  test::add_own_optimizers();
  const auto choice = [](const char* name, double lr) {
    optimizer_choice made;
    made.name = name;
    made.lr = lr;
    made.lr_schedule = "step:2,0.5";
    return made;
  };
  const auto expected = trained_by(choice("sgd:momentum=0.5", 0.1), choice("adagrad", 0.3));
  EXPECT_EQ(expected.size(), 5U * 3 + 3 + 9 * 6 + 6 * 5 + 5);
  EXPECT_EQ(trained_by(choice("own-momentum:momentum=0.5", 0.1), choice("own-adagrad", 0.3)), expected);
  EXPECT_NE(trained_by(choice("own-momentum", 0.1), choice("own-adagrad", 0.3)), expected);
}

// -- closed forms ---------------------------------------------------------------------------

// With a constant gradient the direction d is its sign: w' = w (1 - lr decay) - lr d, and m = (1 - beta2^t) g.
TEST(OwnOptimizers, LionGoesByItsClosedForm) {
  test::add_own_optimizers();
  constexpr double lr = 0.05;
  constexpr double decay = 0.5;
  constexpr double beta2 = 0.75;
  constexpr std::size_t count = 100;
  constexpr int steps = 20;
  auto spec = test::spec_of("own-lion:weight_decay=0.5,beta2=0.75");
  spec.lr = lr;
  ASSERT_EQ(model::state_buffers(spec), 1);
  std::vector<float> weights(count);
  std::vector<float> gradient(count);
  std::vector<float> first(count, model::initial_state(spec));
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = static_cast<float>(i) / 50 - 1;
    gradient[i] = (i % 2 == 0 ? 1.0F : -1.0F) * (0.25F + static_cast<float>(i) / 8);
  }
  const std::vector<float> initial = weights;
  for (std::uint64_t t = 1; t <= steps; ++t)
    kernels::host_stream().update_dense(model::constants_at(spec, t), count, weights.data(), {first.data(), nullptr},
                                        gradient.data());
  for (std::size_t i = 0; i < count; ++i) {
    const double direction = gradient[i] > 0 ? 1 : -1;
    const double left = std::pow(1 - lr * decay, steps);
    EXPECT_NEAR(weights[i], (initial[i] + direction / decay) * left - direction / decay, 1e-5) << i;
    EXPECT_NEAR(first[i], (1 - std::pow(beta2, steps)) * gradient[i], 1e-5) << i;
  }
}

// Rows that a step does not touch keep their values; the others move by lr * step, with the scheduled lr.
TEST(OwnOptimizers, TakeTheRowsOfAStepOnly) {
  test::add_own_optimizers();
  model::embedding_bag_options options;
  options.rows = 4;
  options.dim = 3;
  options.optimizer = test::spec_of("own-steps", model::optimizer_use::table);
  options.optimizer.lr = 0.5;
  options.optimizer.schedule = model::parse_lr_schedule("step:1,0.5").value();
  EXPECT_FALSE(model::visits_every_row(options.optimizer));
  model::embedding_bag table(options);
  EXPECT_TRUE(table.state().empty());
  const std::vector<float> before(table.weights().begin(), table.weights().end());
  const std::vector<float> grad(6, 1);
  const std::vector<std::int64_t> offsets = {0, 1};
  for (const auto& [step, rows] : {std::pair<std::uint64_t, std::vector<std::int64_t>>{1, {1, 2}}, {2, {2, 2}}}) {
    const model::embedding_bag::contribution one{{rows, offsets, {}}, {grad.data(), 3}};
    ASSERT_EQ(table.step(step, {&one, 1}, 1), std::nullopt);
  }
  const std::vector<float> gone = {0, 0.5F, 0.5F + 2 * 0.25F, 0};
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(table.weights()[i], before[i] - gone[i / 3], 1e-6) << "row " << i / 3;
}

TEST(OwnOptimizers, GetTheWholeGradientOfARowAtOnce) {
  test::add_own_optimizers();
  model::embedding_bag_options options;
  options.rows = 2;
  options.dim = 2;
  options.optimizer = test::spec_of("own-descent", model::optimizer_use::table);
  options.optimizer.lr = 0.5;
  model::embedding_bag table(options);
  const std::vector<float> before(table.weights().begin(), table.weights().end());
  const std::vector<float> grad = {1, 2, 4, 8};
  const std::vector<std::int64_t> rows = {1, 1};
  const std::vector<std::int64_t> offsets = {0, 1};
  const model::embedding_bag::contribution one{{rows, offsets, {}}, {grad.data(), 2}};
  ASSERT_EQ(table.step(1, {&one, 1}, 1), std::nullopt);
  const std::vector<float> expected = {before[0], before[1], before[2] - 2.5F, before[3] - 5.0F};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(table.weights()[i], expected[i], 1e-6) << i;
}

}  // namespace
}  // namespace troupe::own_optimizer_test
