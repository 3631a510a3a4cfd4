// Whole runs with the optimizers, schedules and types of rows that tables have: they reach servers and trainers, and
// no bit depends on the number of servers.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "actors/run.hpp"
#include "kernels/rows.hpp"
#include "model/job.hpp"

namespace troupe {
namespace {

/// A short run of `more` settings; the later of two equal ones counts.
run_summary run_of(std::vector<setting> more, bool return_weights = false) {
  std::vector<setting> settings = {{"data", "synthetic"}, {"tables", "2"},        {"rows", "50"},     {"dim", "5"},
                                   {"bag", "3"},          {"batch-size", "16"},   {"steps", "12"},    {"hidden", "8"},
                                   {"trainers", "2"},     {"sparse-lr", "0.125"}, {"eval-every", "0"}};
  settings.insert(settings.end(), more.begin(), more.end());
  const auto what = parse_job(settings);
  EXPECT_TRUE(what) << (what ? "" : what.error().message);
  run_options options;
  options.threads = 2;
  options.return_weights = return_weights;
  const auto summary = run_job(*what, options, nullptr);
  EXPECT_TRUE(summary) << (summary ? "" : summary.error().message);
  return summary.value_or(run_summary{});
}

TEST(table_options, no_bit_depends_on_the_number_of_servers) {
  for (const std::vector<setting>& how : std::vector<std::vector<setting>>{
           {{"sparse-optimizer", "rowwise-adagrad:weight_decay=0.01"}, {"row-dtype", "f16"}},
           {{"sparse-optimizer", "lazy-adam"}, {"row-dtype", "bf16"}, {"lr-schedule", "warmup:4+cosine:8"}},
           {{"sparse-optimizer", "lazy-sgd:momentum=0.9"}, {"lr-schedule", "step:3,0.5"}},
           {{"sparse-optimizer", "adagrad"}, {"row-dtype", "f16"}}}) {
    std::string digest;
    for (const char* servers : {"1", "2", "3"}) {
      auto settings = how;
      settings.emplace_back("servers", servers);
      const auto got = run_of(settings).weights_digest;
      EXPECT_EQ(got.size(), 16U);
      if (digest.empty()) digest = got;
      EXPECT_EQ(got, digest) << how[0].second << ", " << servers << " servers";
    }
  }
}

TEST(table_options, each_of_them_changes_what_is_trained) {
  const std::string plain = run_of({}).weights_digest;
  for (const setting& one : std::vector<setting>{{"sparse-optimizer", "rowwise-adagrad"},
                                                 {"sparse-optimizer", "lazy-adam"},
                                                 {"lr-schedule", "warmup:4"},
                                                 {"row-dtype", "f16"},
                                                 {"row-dtype", "bf16"}})
    EXPECT_NE(run_of({one}).weights_digest, plain) << one.first << " " << one.second;
}

// A cosine that has ended leaves a learning rate of 0: further steps change neither tables nor dense weights.
TEST(table_options, a_schedule_that_has_ended_stops_dense_weights_and_servers_alike) {
  const setting schedule{"lr-schedule", "warmup:2+cosine:4"};
  const auto after = [&](const char* steps) { return run_of({schedule, {"steps", steps}}).weights_digest; };
  EXPECT_NE(after("5"), after("6"));
  EXPECT_EQ(after("6"), after("12"));
}

TEST(table_options, weights_that_are_returned_are_the_floats_that_the_rows_stand_for) {
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

}  // namespace
}  // namespace troupe
