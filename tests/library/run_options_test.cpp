// The options of optimizer steps, tables and optimizers that programs share with jobs: the bits equal the job's.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "tests/library/made_cluster.hpp"
#include "troupe/troupe.hpp"

namespace troupe::run_options_test {
namespace {

using embedding_bag = nn::embedding_bag;
using settings = std::vector<model::setting>;
using test::made_cluster;

constexpr int epochs = 5;

/// What trains the tutorial's model: its table, its optimizers, and its contexts' options.
struct training {
  embedding_bag::options table{.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum};
  bool is_spread = false;
  optimizer_choice dense = sgd{.lr = 0.05};
  optimizer_choice sparse = sgd{.lr = 0.05};
  std::vector<std::string> text = {};
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
  made_cluster cluster(how.text);
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
  EXPECT_EQ(digest({.trainers = 2, .clip_norm = 1e6}), plain());
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
  // 16 does not divide 50 batches: the last optimizer step has fewer.
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
    training how{.is_spread = true, .text = {"--servers", "3"}};
    how.table.split = split;
    EXPECT_EQ(digest({.trainers = 2}, how), plain());
    EXPECT_EQ(digest({.trainers = 2, .accumulate = 16}, how), digest_of_job({{"accumulate", "16"}}));
  }
  EXPECT_EQ(
      digest({.trainers = 2, .clip_norm = 0.02, .accumulate = 16}, {.is_spread = true, .text = {"--servers", "3"}}),
      digest_of_job({{"accumulate", "16"}, {"clip-norm", "0.02"}}));
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

}  // namespace
}  // namespace troupe::run_options_test
