// The options of a run's optimizer steps, and of tables and optimizers: where a job has the same, the bits are the
// job's; else against closed forms.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "nodes/run_job.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::run_options_test {
namespace {

using embedding_bag = nn::embedding_bag;
using settings = std::vector<model::setting>;
using test::made_cluster;

constexpr int epochs = 5;

/// What trains the tutorial's model: its table, its optimizers, and what a context has.
struct training {
  embedding_bag::options table{.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum};
  bool is_spread = false;
  optimizer_choice dense = sgd{.lr = 0.05};
  optimizer_choice sparse = sgd{.lr = 0.05};
  std::vector<std::string> words = {};
};

task<> train(trainer me, remote_module<embedding_bag> embedding, const training* how) {
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(how->sparse, embedding);
  optimizer.add(how->dense, model);
  for (const auto epoch : me.steps(epochs))
    for (const auto& [indices, offsets, target] : me.batches(tutorial_batches(me.seed(), me.rank(), epoch))) {
      auto context = me.new_context();
      auto rows = co_await embedding.forward(context, indices, offsets);
      co_await context.backward(nn::cross_entropy(context, model(context, rows), target));
      co_await optimizer.step(context);
    }
}

run_summary run(const run_options& options, const training& how = {}) {
  made_cluster cluster(how.words);
  const auto embedding =
      how.is_spread ? cluster.make<embedding_bag>(how.table) : cluster.server(0).make<embedding_bag>(how.table);
  return cluster.run(options, train, embedding, &how);
}

std::string digest(const run_options& options, const training& how = {}) { return run(options, how).weights_digest; }

std::string digest_of_job(const settings& given) {
  settings all = {{"data", "tutorial"}, {"epochs", std::to_string(epochs)}};
  all.insert(all.end(), given.begin(), given.end());
  return nodes::run_job(model::parse_job(all).value(), {}, nullptr).value().weights_digest;
}

const std::string& plain() {
  static const std::string made = digest_of_job({});
  return made;
}

TEST(RunOptions, ClipNormHasTheJobsBits) {
  const std::string clipped = digest_of_job({{"clip-norm", "0.02"}});
  ASSERT_NE(clipped, plain()) << "the limit has no effect";
  EXPECT_EQ(digest({.trainers = 2, .clip_norm = 0.02}), clipped);
  EXPECT_EQ(digest({.trainers = 2, .clip_norm = 1e9}), plain());
}

TEST(RunOptions, ALearningRateScheduleHasTheJobsBits) {
  const std::string schedule = "warmup:7+cosine:40";
  const std::string expected = digest_of_job({{"lr-schedule", schedule}});
  ASSERT_NE(expected, plain());
  EXPECT_EQ(digest({.trainers = 2}, {.dense = sgd{.lr = 0.05, .lr_schedule = schedule},
                                     .sparse = sgd{.lr = 0.05, .lr_schedule = schedule}}),
            expected);
  EXPECT_EQ(digest({.trainers = 2}, {.dense = adam{.lr = 0.01, .lr_schedule = schedule},
                                     .sparse = adagrad{.lr = 0.1, .lr_schedule = schedule}}),
            digest_of_job({{"lr-schedule", schedule},
                           {"dense-optimizer", "adam"},
                           {"dense-lr", "0.01"},
                           {"sparse-optimizer", "adagrad"},
                           {"sparse-lr", "0.1"}}));
}

TEST(RunOptions, AccumulationHasTheJobsBits) {
  // Of 50 batches, 16 makes the last optimizer step short.
  for (const std::uint32_t batches : {5U, 16U}) {
    const std::string expected = digest_of_job({{"accumulate", std::to_string(batches)}});
    ASSERT_NE(expected, plain());
    EXPECT_EQ(digest({.trainers = 2, .accumulate = batches}), expected) << batches;
    EXPECT_EQ(digest({.trainers = 2, .clip_norm = 0.02, .accumulate = batches}),
              digest_of_job({{"accumulate", std::to_string(batches)}, {"clip-norm", "0.02"}}))
        << batches;
  }
}

TEST(RunOptions, NarrowRowsHaveTheJobsBits) {
  training how;
  how.table.row_dtype = dtype::f16;
  EXPECT_EQ(digest({.trainers = 2}, how), digest_of_job({{"row-dtype", "f16"}}));
  how.table.row_dtype = dtype::f32;
  how.table.wire_dtype = dtype::bf16;
  EXPECT_EQ(digest({.trainers = 2}, how), digest_of_job({{"wire-dtype", "bf16"}}));
}

TEST(RunOptions, ATableSpreadOverServersHasTheBitsOfOneServer) {
  for (const auto split : {nn::table_split::rows, nn::table_split::columns}) {
    training how{.is_spread = true, .words = {"--servers", "3"}};
    how.table.split = split;
    EXPECT_EQ(digest({.trainers = 2}, how), plain());
    EXPECT_EQ(digest({.trainers = 2, .clip_norm = 0.02, .accumulate = 16}, how),
              digest_of_job({{"accumulate", "16"}, {"clip-norm", "0.02"}}));
  }
}

TEST(RunOptions, TwoOptimizersOfTwoPartsHaveTheJobsBits) {
  EXPECT_EQ(digest({.trainers = 3, .clip_norm = 0.05}, {.dense = adam{.lr = 0.01}, .sparse = adagrad{.lr = 0.1}}),
            digest_of_job({{"trainers", "3"},
                           {"clip-norm", "0.05"},
                           {"dense-optimizer", "adam"},
                           {"dense-lr", "0.01"},
                           {"sparse-optimizer", "adagrad"},
                           {"sparse-lr", "0.1"}}));
}

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
  const auto embedding = cluster.make<embedding_bag>(training().table);
  std::atomic<int> skipped = 0;
  const std::string digest = cluster.run(options, train_spoilt, embedding, what, &skipped).weights_digest;
  EXPECT_EQ(skipped, expected_skipped);
  return digest;
}

TEST(RunOptions, AStepWithNanIsLeftOutEverywhere) {
  const run_options skipping{.trainers = 2, .nan = nan_policy::skip};
  const std::string without = run_spoilt(skipping, spoilt::left_out, 0);
  EXPECT_EQ(run_spoilt(skipping, spoilt::loss_of_rank_1, 2), without);
  EXPECT_NE(run_spoilt(skipping, spoilt::nothing, 0), without);
  EXPECT_EQ(run_spoilt({.trainers = 2}, spoilt::left_out, 0), without);
}

TEST(RunOptions, OtherwiseNanEndsTheRun) {
  const std::string text = test::error_of([] { run_spoilt({.trainers = 2}, spoilt::loss_of_rank_1, 0); });
  EXPECT_NE(text.find("trainer 1, step 6: the loss is NaN"), std::string::npos) << text;
}

// -- clipping by hand -----------------------------------------------------------------

/// A table, a replica, a replica of each trainer's own, and a module on a server; each has the gradient that `scale`
/// and its sample give it.
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

TEST(RunOptions, TheNormIsOfAllThatIsTrainedWhereverItIs) {
  const double p = 1 / (1 + std::exp(0.0));  // of each class: all weights are 1, the row is [1, 1]
  // Rank r's gradient of the outputs is p - [class r]. Each factor is 1, so every gradient is that one.
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

// -- resuming -------------------------------------------------------------------------

task<> train_broken(trainer me, remote_module<embedding_bag> embedding, int breaks_after, int batches) {
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(adam{.lr = 0.01, .lr_schedule = "warmup:4"}, embedding, model);
  const auto all = tutorial_batches(me.seed(), me.rank(), 0);
  for (const auto step : me.steps(static_cast<std::uint64_t>(batches))) {
    const auto& [indices, offsets, target] = all[step % all.size()];
    auto context = me.new_context();
    auto rows = co_await embedding.forward(context, indices, offsets);
    co_await context.backward(nn::cross_entropy(context, model(context, rows), target));
    co_await optimizer.step(context);
    if (breaks_after > 0 && step + 1 == static_cast<std::uint64_t>(breaks_after) && me.rank() == 0)
      throw std::runtime_error("the power has failed");
  }
}

run_summary run_broken(std::vector<std::string> words, int breaks_after, int batches = 22) {
  words.insert(words.end(), {"--servers", "2", "--quiet"});
  made_cluster cluster(std::move(words));
  const auto embedding = cluster.make<embedding_bag>(training().table);
  return cluster.run({.trainers = 2, .clip_norm = 0.05, .accumulate = 4}, train_broken, embedding, breaks_after,
                     batches);
}

TEST(RunOptions, ARunIsResumedBetweenOptimizerSteps) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const run_summary whole = run_broken({}, 0);
  EXPECT_EQ(whole.steps, 24U) << "the last optimizer step has 2 of 4 batches, and counts as a whole one";
  EXPECT_THROW(run_broken({"--save", there, "--checkpoint-every", "5"}, 11), error);
  const run_summary resumed = run_broken({"--resume", there}, 0);
  EXPECT_EQ(resumed.weights_digest, whole.weights_digest);
  EXPECT_EQ(resumed.steps, 24U);
}

TEST(RunOptions, ARunIsResumedAfterAShortOptimizerStep) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const run_summary whole = run_broken({"--save", there}, 0, 10);
  EXPECT_EQ(run_broken({"--resume", there}, 0, 10).weights_digest, whole.weights_digest);
  EXPECT_EQ(run_broken({"--resume", there}, 0, 18).steps, 20U);
}

TEST(RunOptions, AResumedRunHasTheSameOnes) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  run_broken({"--save", there}, 0);
  made_cluster cluster({"--resume", there, "--servers", "2", "--quiet"});
  const auto embedding = cluster.make<embedding_bag>(training().table);
  const std::string text =
      test::error_of([&] { cluster.run({.trainers = 2, .clip_norm = 0.05}, train_broken, embedding, 0, 22); });
  EXPECT_NE(text.find("accumulate"), std::string::npos) << text;
}

// -- consistency ----------------------------------------------------------------------

/// Trainer 1 takes no step until trainer 0 has taken two, and looked for a third batch's rows.
task<> run_ahead(trainer me, remote_module<embedding_bag> embedding, int lookups, std::vector<float>* rows) {
  distributed_optimizer optimizer(sgd{.lr = 1}, embedding);
  const std::vector<std::int64_t> first = {0};
  const std::vector<std::int64_t> target = {0};
  if (me.rank() == 1) co_await me.group().recv(0);
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const auto impatient = embedding.within(me.rank() == 0 ? std::chrono::milliseconds(50) : std::chrono::minutes(5));
    if (me.rank() == 0 && step == lookups) {
      try {
        co_await impatient.forward(context, first, first);
        ADD_FAILURE() << "rows that lack more steps than they may";
      } catch (const error& e) {
        EXPECT_EQ(e.kind(), error_kind::deadline);
      }
      me.group().send(tensor(shape(1)), 1);
    }
    const auto patient = embedding.within(std::chrono::minutes(5));
    const tensor found = co_await patient.forward(context, first, first);
    if (me.rank() == 0) rows->push_back(found.as<float>()[0]);
    co_await context.backward(nn::cross_entropy(context, found, target));
    co_await optimizer.step(context);
  }
  if (me.rank() == 0 && lookups >= 3) me.group().send(tensor(shape(1)), 1);
}

std::vector<float> ahead(const std::string& consistency, int lookups) {
  made_cluster cluster;
  const auto embedding = cluster.server(0).make<embedding_bag>(
      {.num_embeddings = 1, .embedding_dim = 2, .mode = nn::pooling::sum, .init = nn::zeros});
  std::vector<float> rows;
  cluster.run({.trainers = 2, .consistency = consistency}, run_ahead, embedding, lookups, &rows);
  return rows;
}

TEST(RunOptions, ALookupMayLackAsManyOptimizerStepsAsTheConsistencySays) {
  const auto of_sync = ahead("sync", 1);
  EXPECT_EQ(of_sync.at(0), 0);
  EXPECT_NE(of_sync.at(1), 0);
  const auto of_ssp = ahead("ssp:1", 2);
  EXPECT_EQ(of_ssp.at(1), 0) << "the first step of trainer 1 is missing, so there is none";
  EXPECT_NE(of_ssp.at(2), 0);
}

TEST(RunOptions, AsyncAppliesEachTrainersGradientsAsTheyCome) {
  const auto rows = ahead("async", 3);
  // Softmax of two equal numbers, then of the row after one step with a learning rate of 1.
  EXPECT_EQ(rows.at(0), 0);
  EXPECT_NEAR(rows.at(1), 2 * 0.5, 1e-6) << "the sum, as if both trainers had that gradient";
  const double p = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(rows.at(2), 1 + 2 * (1 - p), 1e-6);
}

// -- what is refused ------------------------------------------------------------------

task<> do_nothing(trainer /*me*/) { co_return; }

std::string refused(const run_options& options) {
  return test::error_of([&] {
    made_cluster cluster;
    cluster.run(options, do_nothing);
  });
}

TEST(RunOptions, AreRefusedAsTheJobs) {
  EXPECT_NE(refused({.trainers = 2, .clip_norm = -1}).find("--clip-norm -1"), std::string::npos);
  EXPECT_NE(refused({.trainers = 2, .accumulate = 0}).find("--accumulate 0"), std::string::npos);
  EXPECT_NE(refused({.trainers = 2, .consistency = "eventual"}).find("--consistency eventual"), std::string::npos);
  EXPECT_NE(refused({.trainers = 2, .clip_norm = 1, .consistency = "async"}).find("use sync or ssp:K"),
            std::string::npos);
  EXPECT_EQ(refused({.trainers = 0}), "run(0, ...): must be between 1 and 1024 trainers");
}

task<> schedule_badly(trainer me) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr_schedule = "cosin:3"}, model);
  co_return;
}

task<> change_members(trainer me) {
  auto first = me.data_parallel(nn::linear(2, 2));
  auto second = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer of_first(sgd{}, first);
  distributed_optimizer of_second(sgd{}, second);
  auto context = me.new_context();
  co_await of_first.step(context);
  auto next = me.new_context();
  co_await of_second.step(next);
}

template <class Function>
std::string error_in(const run_options& options, Function function) {
  return test::error_of([&] {
    made_cluster cluster;
    cluster.run(options, function);
  });
}

TEST(RunOptions, WrongUsesAreNamed) {
  EXPECT_NE(error_in({}, schedule_badly).find("sgd: lr_schedule cosin:3: "), std::string::npos);
  EXPECT_NE(error_in({.accumulate = 2}, change_members)
                .find("an optimizer step with other members than the one before, within 2 that make up one"),
            std::string::npos);
  EXPECT_NE(test::error_of([] {
              made_cluster cluster;
              cluster.make<embedding_bag>({.num_embeddings = 2, .embedding_dim = 2, .row_dtype = dtype::i64});
            }).find("embedding_bag: row_dtype int64: must be float32, float16 or bfloat16"),
            std::string::npos);
}

task<> ask_a_spread_table(trainer /*me*/, remote_module<embedding_bag> embedding) { co_await embedding.state_dict(); }

TEST(RunOptions, ASpreadTableHasNoOtherCalls) {
  const std::string text = test::error_of([] {
    made_cluster cluster({"--servers", "2"});
    const auto embedding = cluster.make<embedding_bag>({.num_embeddings = 4, .embedding_dim = 2});
    cluster.run(1, ask_a_spread_table, embedding);
  });
  EXPECT_NE(text.find("embedding_bag.state_dict of table 0 on 2 servers: a table that is spread over servers"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace troupe::run_options_test
