// How stale rows may be, and which options and tables a run refuses.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "troupe/troupe.hpp"

namespace troupe::consistency_test {
namespace {

using embedding_bag = nn::embedding_bag;
using test::made_cluster;

// -- consistency ----------------------------------------------------------------------

/// Trainer 1 waits until trainer 0 has done its steps and its lookup of another batch's rows.
task<> run_ahead(trainer me, remote_module<embedding_bag> embedding, int lookups, std::vector<float>* rows) {
  distributed_optimizer optimizer(sgd{.lr = 1}, embedding);
  const std::vector<std::int64_t> first = {0};
  const std::vector<std::int64_t> target = {0};
  if (me.rank() == 1) co_await me.group().recv(0);
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const auto impatient =
        embedding.with_deadline(me.rank() == 0 ? std::chrono::milliseconds(50) : std::chrono::minutes(5));
    if (me.rank() == 0 && step == lookups) {
      try {
        co_await impatient.forward(context, first, first);
        ADD_FAILURE() << "rows that lack more steps than they may";
      } catch (const error& e) {
        EXPECT_EQ(e.kind(), error_kind::deadline);
      }
      me.group().send(tensor(shape(1)), 1);
    }
    const auto patient = embedding.with_deadline(std::chrono::minutes(5));
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

TEST(Consistency, ALookupMayLackAsManyOptimizerStepsAsTheConsistencySays) {
  const auto of_sync = ahead("sync", 1);
  EXPECT_EQ(of_sync.at(0), 0);
  EXPECT_NE(of_sync.at(1), 0);
  const auto of_ssp = ahead("ssp:1", 2);
  EXPECT_EQ(of_ssp.at(1), 0) << "trainer 1 has taken no step";
  EXPECT_NE(of_ssp.at(2), 0);
}

TEST(Consistency, AsyncAppliesEachTrainersGradientsAsTheyCome) {
  const auto rows = ahead("async", 3);
  // Softmax gradients with a learning rate of 1: for two equal numbers, then for the row [x, -x] after one step.
  EXPECT_EQ(rows.at(0), 0);
  EXPECT_NEAR(rows.at(1), 0.5, 1e-6);
  EXPECT_NEAR(rows.at(2), 0.5 + 1 - 1 / (1 + std::exp(-1.0)), 1e-6);
}

task<> pass_with_staleness(trainer me, remote_module<nn::linear> layer) {
  auto context = me.new_context();
  co_await layer.forward(context, tensor({1, 2}));
}

TEST(Consistency, PassesOfModulesOnServersNeedSync) {
  const std::string text = test::error_of([] {
    made_cluster cluster;
    const auto layer = cluster.server(0).make<nn::linear>({.in_features = 2, .out_features = 2});
    cluster.run({.trainers = 2, .consistency = "ssp:1"}, pass_with_staleness, layer);
  });
  EXPECT_NE(text.find("linear.forward on server 0: a pass that trains, of a module on a server, needs"),
            std::string::npos)
      << text;
}

// -- errors ---------------------------------------------------------------------------

task<> do_nothing(trainer /*me*/) { co_return; }

std::string refused(const run_options& options) {
  return test::error_of([&] {
    made_cluster cluster;
    cluster.run(options, do_nothing);
  });
}

TEST(Consistency, AreRefusedAsTheJobsByTheNamesInTheSource) {
  EXPECT_FINDS(refused({.trainers = 2, .clip_norm = -1}), "run: clip_norm -1: must be ");
  EXPECT_FINDS(refused({.trainers = 2, .accumulate = 0}), "run: accumulate 0: must be ");
  EXPECT_FINDS(refused({.trainers = 2, .consistency = "eventual"}), "run: consistency eventual: must be ");
  EXPECT_EQ(refused({.trainers = 2, .clip_norm = 1, .consistency = "async"}),
            "run: clip_norm 1: trainers have no step in common with consistency async; use sync or ssp:K");
  EXPECT_EQ(refused({.trainers = 2, .nan = nan_policy::skip, .consistency = "async"}),
            "run: nan skip: trainers have no step in common with consistency async; use sync or ssp:K");
  EXPECT_EQ(refused({.trainers = 0}), "run(0, ...): must be between 1 and 1024 trainers");
}

TEST(Consistency, AreRefusedByTheNameOfTheOptionThatTheProgramHasForThem) {
  double clip_norm = 0;
  const std::string text = test::error_of([&] {
    made_cluster cluster({"--clip-norm=-1"}, {option("clip-norm", clip_norm, "the limit of the gradient's norm")});
    cluster.run({.clip_norm = clip_norm}, do_nothing);
  });
  EXPECT_FINDS(text, "run: --clip-norm -1: must be ");
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

task<> cut_rows(trainer /*me*/, remote_module<embedding_bag> embedding) {
  optimizer_choice of_rows;
  of_rows.name = "rowwise-adagrad";
  of_rows.lr = 0.1;
  distributed_optimizer optimizer(of_rows, embedding);
  co_return;
}

TEST(Consistency, WhatNeedsWholeRowsIsRefusedOfColumns) {
  const embedding_bag::options columns{.num_embeddings = 4, .embedding_dim = 4, .split = nn::table_split::columns};
  EXPECT_EQ(test::error_of([&] {
              made_cluster cluster({"--servers", "2"});
              cluster.make<embedding_bag>(columns);
              cluster.run({.clip_norm = 1}, do_nothing);
            }),
            "run: clip_norm 1: adds up the squares of whole rows, which table_split::columns cuts; use "
            "table_split::rows");
  const std::string text = test::error_of([&] {
    made_cluster cluster({"--servers", "2"});
    const auto embedding = cluster.make<embedding_bag>(columns);
    cluster.run(1, cut_rows, embedding);
  });
  EXPECT_NE(text.find("rowwise-adagrad: needs whole rows, which table_split::columns of"), std::string::npos) << text;
}

TEST(Consistency, WrongUsesAreNamed) {
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

}  // namespace
}  // namespace troupe::consistency_test
