// Optimizer steps over several contexts: in stages, on one trainer, on servers, and in a resumed run.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::accumulated_steps_test {
namespace {

using embedding_bag = nn::embedding_bag;
using test::made_cluster;

constexpr embedding_bag::options tutorial_table{.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum};

// -- the same network elsewhere ----------------------------------------------------------

struct sample {
  tensor x;
  std::vector<std::int64_t> y;
};

sample make_sample(std::uint64_t step) {
  sample made{tensor({4, 6}), std::vector<std::int64_t>(4)};
  const auto x = made.x.as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * 7 + step * 13));
  for (std::size_t i = 0; i < 4; ++i) made.y[i] = static_cast<std::int64_t>((i + step) % 3);
  return made;
}

constexpr std::uint64_t samples = 10;

nn::sequential first_half() { return nn::sequential(nn::linear(6, 5), nn::relu()); }
nn::sequential second_half() { return nn::sequential(nn::linear(5, 3)); }

task<> train_whole(trainer me, bool is_synchronized, std::vector<float>* end) {
  auto model = me.data_parallel(nn::sequential(nn::linear(6, 5), nn::relu(), nn::linear(5, 3)),
                                {.synchronized = is_synchronized});
  distributed_optimizer optimizer(adam{.lr = 0.05}, model);
  for (const auto step : me.steps(samples)) {
    const sample now = make_sample(step);
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, model(context, now.x), now.y));
    co_await optimizer.step(context);
  }
  if (me.rank() == 0) *end = model.parameters();
}

task<> train_stages(trainer me) {
  auto model = me.pipeline({first_half(), second_half()}, {.micro_batches = 1});
  distributed_optimizer optimizer(adam{.lr = 0.05}, model);
  for (const auto step : me.steps(samples)) {
    const sample now = make_sample(step);
    auto context = me.new_context();
    co_await model.step(context, now.x, now.y, nn::cross_entropy);
    co_await optimizer.step(context);
  }
}

TEST(AccumulatedSteps, StagesAndReplicasOfOneTrainerHaveTheBitsOfTheWhole) {
  for (run_options how : {run_options{.accumulate = 4}, run_options{.clip_norm = 0.01},
                          run_options{.clip_norm = 0.01, .accumulate = 3, .nan = nan_policy::skip}}) {
    SCOPED_TRACE(how.accumulate);
    std::vector<float> whole;
    std::vector<float> alone;
    how.trainers = 1;
    const std::string expected = made_cluster().run(how, train_whole, true, &whole).weights_digest;
    made_cluster().run(how, train_whole, false, &alone);
    EXPECT_EQ(alone, whole);
    how.trainers = 2;
    EXPECT_EQ(made_cluster().run(how, train_stages).weights_digest, expected);
  }
}

named_tensors first_layer() {
  named_tensors state = {{"weight", tensor({3, 6})}, {"bias", tensor(shape(3))}};
  for (std::size_t i = 0; i < 18; ++i) state[0].second.as<float>()[i] = static_cast<float>(i % 5) / 8 - 0.25F;
  for (float& one : state[1].second.as<float>()) one = 0;
  return state;
}

const sgd with_momentum{.lr = 0.5, .momentum = 0.5};

task<> train_replica(trainer me, std::vector<float>* end) {
  auto model = me.data_parallel(nn::linear(6, 3));
  model.load_state_dict(first_layer());
  distributed_optimizer optimizer(with_momentum, model);
  for (std::uint64_t step = 0; step < samples; ++step) {
    const sample now = make_sample(2 * step + me.rank());
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, model(context, now.x), now.y));
    co_await optimizer.step(context);
  }
  if (me.rank() == 0) *end = model.parameters();
}

task<> train_hosted(trainer me, remote_module<nn::linear> layer, std::vector<float>* end) {
  if (me.rank() == 0) co_await layer.load_state_dict(first_layer());
  co_await me.group().barrier();
  distributed_optimizer optimizer(with_momentum, layer);
  for (std::uint64_t step = 0; step < samples; ++step) {
    const sample now = make_sample(2 * step + me.rank());
    auto context = me.new_context();
    const tensor y = co_await layer.forward(context, now.x);
    co_await context.backward(nn::cross_entropy(context, y, now.y));
    co_await optimizer.step(context);
  }
  const named_tensors all = co_await layer.state_dict();
  for (const auto& [name, numbers] : all)
    if (me.rank() == 0) end->insert(end->end(), numbers.as<float>().begin(), numbers.as<float>().end());
}

TEST(AccumulatedSteps, AModuleOnAServerHasTheBitsOfAReplica) {
  for (const run_options& how : {run_options{.trainers = 2, .accumulate = 5},
                                 run_options{.trainers = 2, .accumulate = 5, .nan = nan_policy::skip}}) {
    std::vector<float> replica;
    std::vector<float> hosted;
    made_cluster().run(how, train_replica, &replica);
    made_cluster cluster;
    const auto layer = cluster.server(0).make<nn::linear>({.in_features = 6, .out_features = 3});
    cluster.run(how, train_hosted, layer, &hosted);
    EXPECT_EQ(hosted, replica);
  }
}

task<> make_and_train(trainer me, std::vector<float>* end) {
  auto table = co_await me.server(1).make<embedding_bag>(
      {.num_embeddings = 1, .embedding_dim = 2, .mode = nn::pooling::sum, .init = nn::zeros});
  distributed_optimizer optimizer(sgd{.lr = 1}, table);
  const std::vector<std::int64_t> first = {0};
  for (int step = 0; step < 5; ++step) {
    auto context = me.new_context();
    const tensor rows = co_await table.forward(context, first, first);
    if (step == 3) *end = {rows.as<float>().begin(), rows.as<float>().end()};
    co_await context.backward(nn::cross_entropy(context, rows, first));
    co_await optimizer.step(context);
  }
}

TEST(AccumulatedSteps, ATableMadeDuringTheRunHasThem) {
  made_cluster cluster({"--servers", "2"});
  std::vector<float> rows;
  cluster.run({.accumulate = 3}, make_and_train, &rows);
  EXPECT_EQ(rows, (std::vector<float>{0.5F, -0.5F})) << "three equal gradients of 1/2 are one optimizer step";
}

// -- resuming -------------------------------------------------------------------------

/// Counts steps while the function runs.
struct counted {
  double count = 0;
  named_tensors state_dict() const { return {{"count", tensor::of(shape(1), std::span<const double>(&count, 1))}}; }
  void load_state_dict(const named_tensors& state) { count = state.at(0).second.as<double>()[0]; }
};

task<> train_broken(trainer me, remote_module<embedding_bag> embedding, int breaks_after, int batches) {
  counted steps_taken;
  me.register_state("counted", steps_taken);
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(adam{.lr = 0.01, .lr_schedule = "warmup:4"}, embedding, model);
  const auto all = tutorial_batches(me.seed(), me.rank(), 0);
  for (const auto step : me.steps(static_cast<std::uint64_t>(batches))) {
    const auto& [indices, offsets, target] = all[step % all.size()];
    auto context = me.new_context();
    auto rows = co_await embedding.forward(context, indices, offsets);
    co_await context.backward(nn::cross_entropy(context, model(context, rows), target));
    EXPECT_EQ(++steps_taken.count, step + 1) << "also in a run that is resumed";
    co_await optimizer.step(context);
    if (breaks_after > 0 && step + 1 == static_cast<std::uint64_t>(breaks_after) && me.rank() == 0)
      throw std::runtime_error("the power has failed");
  }
}

run_summary run_broken(std::vector<std::string> text, int breaks_after, int batches = 22,
                       const std::string& servers = "2") {
  text.insert(text.end(), {"--servers", servers, "--quiet"});
  made_cluster cluster(std::move(text));
  const auto embedding = cluster.make<embedding_bag>(tutorial_table);
  return cluster.run({.trainers = 2, .clip_norm = 0.05, .accumulate = 4}, train_broken, embedding, breaks_after,
                     batches);
}

TEST(AccumulatedSteps, ARunIsResumedBetweenOptimizerSteps) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const run_summary whole = run_broken({}, 0);
  EXPECT_EQ(whole.steps, 24U) << "the last optimizer step has 2 of 4 batches, and counts as a whole one";
  EXPECT_THROW(run_broken({"--save", there, "--checkpoint-every", "5"}, 11), error);
  const run_summary resumed = run_broken({"--resume", there}, 0);
  EXPECT_EQ(resumed.weights_digest, whole.weights_digest);
  EXPECT_EQ(resumed.steps, 24U);
}

TEST(AccumulatedSteps, ARunIsResumedAfterAShortOptimizerStep) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const run_summary whole = run_broken({"--save", there}, 0, 10);
  EXPECT_EQ(run_broken({"--resume", there}, 0, 10).weights_digest, whole.weights_digest);
  EXPECT_EQ(run_broken({"--resume", there}, 0, 18).steps, 20U);
}

/// Makes the next context before it awaits the last step.
task<> train_ahead(trainer me) {
  auto model = me.data_parallel(nn::linear(6, 3));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  auto context = me.new_context();
  for (const auto step : me.steps(8)) {
    const sample now = make_sample(step);
    co_await context.backward(nn::cross_entropy(context, model(context, now.x), now.y));
    auto taken = optimizer.step(context);
    auto next = me.new_context();
    co_await std::move(taken);
    context = std::move(next);
    if (step == 5) throw std::runtime_error("the power has failed");
  }
}

TEST(AccumulatedSteps, CheckpointsAreBetweenOptimizerSteps) {
  const trace::temporary_folder folder;
  made_cluster cluster({"--save", folder.path().string(), "--checkpoint-every", "4", "--quiet"});
  EXPECT_THROW(cluster.run({.trainers = 2, .accumulate = 4}, train_ahead), error);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-000000000004.json")) << "after 4 steps";
}

TEST(AccumulatedSteps, ASpreadTableGoesOnWithMoreServers) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const run_summary whole = run_broken({}, 0);
  EXPECT_THROW(run_broken({"--save", there, "--checkpoint-every", "5"}, 11), error);
  EXPECT_EQ(run_broken({"--resume", there}, 0, 22, "5").weights_digest, whole.weights_digest);
}

TEST(AccumulatedSteps, AResumedRunHasTheSameOnes) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  run_broken({"--save", there}, 0);
  made_cluster cluster({"--resume", there, "--servers", "2", "--quiet"});
  const auto embedding = cluster.make<embedding_bag>(tutorial_table);
  const std::string text =
      test::error_of([&] { cluster.run({.trainers = 2, .clip_norm = 0.05}, train_broken, embedding, 0, 22); });
  EXPECT_NE(text.find("accumulate"), std::string::npos) << text;
}

}  // namespace
}  // namespace troupe::accumulated_steps_test
