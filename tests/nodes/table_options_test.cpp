// Whole runs with each optimizer, schedule and row type of tables: the settings reach servers and trainers, and no bit
// depends on the number of servers.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "kernels/embedding_bag.hpp"
#include "model/job.hpp"
#include "tests/model/temporary_file.hpp"
#include "tests/value_of.hpp"

namespace troupe::nodes::table_options_test {
namespace {

/// A short run with the settings `more`; of two equal settings the later one counts.
actors::run_summary run_of(std::vector<model::setting> more, bool return_weights = false) {
  std::vector<model::setting> settings = {{"data", "synthetic"},  {"tables", "2"},    {"rows", "50"},
                                          {"dim", "5"},           {"bag", "3"},       {"batch-size", "16"},
                                          {"steps", "12"},        {"hidden", "8"},    {"trainers", "2"},
                                          {"sparse-lr", "0.125"}, {"eval-every", "0"}};
  settings.insert(settings.end(), more.begin(), more.end());
  const auto what = model::parse_job(settings);
  EXPECT_TRUE(what) << (what ? "" : what.error().message);
  run_options options;
  options.threads = 2;
  options.return_weights = return_weights;
  const auto summary = run_job(*what, options, nullptr);
  EXPECT_TRUE(summary) << (summary ? "" : summary.error().message);
  return summary.value_or(actors::run_summary{});
}

TEST(TableOptions, NoBitDependsOnTheNumberOfServers) {
  for (const std::vector<model::setting>& how : std::vector<std::vector<model::setting>>{
           {{"sparse-optimizer", "rowwise-adagrad:weight_decay=0.01"}, {"row-dtype", "f16"}},
           {{"sparse-optimizer", "lazy-adam"}, {"row-dtype", "bf16"}, {"lr-schedule", "warmup:4+cosine:8"}},
           {{"sparse-optimizer", "lazy-sgd:momentum=0.9"}, {"lr-schedule", "step:3,0.5"}},
           {{"sparse-optimizer", "adagrad"}, {"row-dtype", "f16"}},
           {{"sparse-optimizer", "adagrad"}, {"wire-dtype", "f16"}},
           {{"sparse-optimizer", "adagrad"}, {"wire-dtype", "bf16"}},
           {{"row-dtype", "f16"}, {"wire-dtype", "f16"}, {"id-skew", "zipf:1.2"}}}) {
    std::string digest;
    for (const char* servers : {"1", "2", "5"}) {
      auto settings = how;
      settings.emplace_back("servers", servers);
      const auto got = run_of(settings).weights_digest;
      EXPECT_EQ(got.size(), 16U);
      if (digest.empty()) digest = got;
      EXPECT_EQ(got, digest) << how[0].second << ", " << servers << " servers";
    }
  }
}

TEST(TableOptions, EachOfThemChangesWhatIsTrained) {
  const std::string plain = run_of({}).weights_digest;
  for (const model::setting& one : std::vector<model::setting>{{"sparse-optimizer", "rowwise-adagrad"},
                                                               {"sparse-optimizer", "lazy-adam"},
                                                               {"lr-schedule", "warmup:4"},
                                                               {"row-dtype", "f16"},
                                                               {"row-dtype", "bf16"},
                                                               {"wire-dtype", "f16"},
                                                               {"wire-dtype", "bf16"}})
    EXPECT_NE(run_of({one}).weights_digest, plain) << one.first << " " << one.second;
}

// After the end of a cosine schedule the learning rate is 0: further steps change neither tables nor dense weights.
TEST(TableOptions, AScheduleThatHasEndedStopsDenseWeightsAndServersAlike) {
  const model::setting schedule{"lr-schedule", "warmup:2+cosine:4"};
  const auto after = [&](const char* steps) { return run_of({schedule, {"steps", steps}}).weights_digest; };
  EXPECT_NE(after("5"), after("6"));
  EXPECT_EQ(after("6"), after("12"));
}

TEST(TableOptions, WeightsThatAreReturnedAreTheFloatsThatTheRowsStandFor) {
  for (const auto& [name, type] : {std::pair{"f16", kernels::row_dtype::f16}, {"bf16", kernels::row_dtype::bf16}}) {
    for (const char* servers : {"1", "2"}) {
      const auto summary = run_of({{"row-dtype", name}, {"servers", servers}}, true);
      ASSERT_TRUE(summary.weights);
      ASSERT_EQ(summary.weights->tables.size(), 2U);
      for (const auto& table : summary.weights->tables) {
        ASSERT_EQ(table.size(), 50U * 5);
        std::vector<std::uint16_t> stored(table.size());
        std::vector<float> back(table.size());
        kernels::encode(table.size(), table.data(), {stored.data(), type});
        kernels::decode({stored.data(), type}, table.size(), back.data());
        EXPECT_EQ(back, table) << name;
      }
    }
  }
}

TEST(TableOptions, AdultIsLearntAsWellWith16BitsOnTheWire) {
  const auto auc_of = [](const char* wire) {
    const auto summary = run_job(*model::parse_job({{"wire-dtype", wire}}), {}, nullptr);
    EXPECT_TRUE(summary && summary->figures.auc);
    return summary && summary->figures.auc ? *summary->figures.auc : 0;
  };
  const double exact = auc_of("f32");
  EXPECT_GT(exact, 0.9);
  EXPECT_NEAR(auc_of("f16"), exact, 0.002);
  EXPECT_NEAR(auc_of("bf16"), exact, 0.002);
}

// Labels of 1e9 make gradients that fit bf16 but not f16.
TEST(TableOptions, AGradientBeyondF16EndsTheRunOrIsLeftOut) {
  const model::temporary_file file("y,city\n1000000000,a\n1000000000,b\n");
  const auto run_with = [&](const char* wire, const char* nan) {
    const auto what =
        model::parse_job({{"data", "csv:" + file.path()},
                          {"columns", R"([{"name":"y","kind":"label"},{"name":"city","kind":"categorical"}])"},
                          {"rows", "5"},
                          {"dim", "4"},
                          {"loss", "mse"},
                          {"batch-size", "1"},
                          {"steps", "2"},
                          {"dense-lr", "0"},
                          {"sparse-lr", "0"},
                          {"wire-dtype", wire},
                          {"nan", nan}});
    EXPECT_TRUE(what) << (what ? "" : what.error().message);
    return run_job(*what, {}, nullptr);
  };
  const auto refused = run_with("f16", "stop");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, fault_kind::run);
  const std::string& line = refused.error().message;
  EXPECT_NE(line.find(", step 1: table 0: the gradient of row "), std::string::npos) << line;
  EXPECT_NE(line.find(" is NaN or Inf as float16; try --wire-dtype bf16"), std::string::npos) << line;
  const auto skipped = value_of(run_with("f16", "skip"));
  EXPECT_EQ(skipped.skipped_steps, 2u);
  for (const char* nan : {"stop", "skip"}) {
    const auto wide = value_of(run_with("bf16", nan));
    EXPECT_EQ(wide.skipped_steps, 0u);
  }
}

}  // namespace
}  // namespace troupe::nodes::table_options_test
