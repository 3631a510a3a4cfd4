// A rank's share of the test rows, scored by a function of the test.

#include "actors/epoch_tally.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::actors::evaluation_test {
namespace {

TEST(TestShare, TheRanksGoThroughAllRowsTogetherAndNoneTwice) {
  for (const std::uint64_t rows : {0ULL, 1ULL, 1023ULL, 1024ULL, 1025ULL, 5000ULL, 7168ULL}) {
    for (const std::uint32_t ranks : {1U, 2U, 3U}) {
      std::vector<int> times(rows);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        test_share mine(rank, ranks, rows, {});
        mine.begin();
        while (const auto chunk = mine.next()) {
          EXPECT_EQ(chunk->first / 1024 % ranks, rank);
          EXPECT_LE(chunk->count, 1024U);
          ASSERT_LE(chunk->first + chunk->count, rows);
          for (std::uint64_t row = chunk->first; row < chunk->first + chunk->count; ++row) ++times[row];
        }
        EXPECT_FALSE(mine.next());
      }
      EXPECT_EQ(times, std::vector<int>(rows, 1)) << rows << " rows, " << ranks << " ranks";
    }
  }
}

TEST(TestShare, WhatTheFunctionCountsIsReportedAndForgotten) {
  test_share mine(0, 1, 3000, [](const model::batch& samples, const float* outputs, model::predictions& counts) {
    counts.tested += samples.size;
    for (std::size_t i = 0; i < samples.size; ++i) counts.scores.push_back(outputs[i]);
    counts.labels.resize(counts.scores.size(), 1.0F);
    counts.loss_sum += 0.5;
    counts.correct = 3;
    counts.rows = 7;
    counts.log_loss_sum = 0.25;
    counts.probability_sum = 0.125;
  });
  model::batch samples;
  samples.size = 2;
  const std::vector<float> outputs = {1, 2};
  mine.begin();
  mine.score(samples, outputs.data());
  mine.score(samples, outputs.data());
  const msg::evaluation told = mine.report();
  EXPECT_EQ(told.tested, 4U);
  EXPECT_EQ(told.loss_sum, 1.0);
  EXPECT_EQ(told.correct, 3U);
  EXPECT_EQ(told.rows, 7U);
  EXPECT_EQ(told.log_loss_sum, 0.25);
  EXPECT_EQ(told.probability_sum, 0.125);
  const auto scores = told.scores.as<float>();
  EXPECT_EQ(std::vector<float>(scores.begin(), scores.end()), (std::vector<float>{1, 2, 1, 2}));
  EXPECT_EQ(told.labels.rows, 4U);
  mine.begin();
  EXPECT_EQ(mine.report().tested, 0U);
  EXPECT_EQ(mine.next()->first, 0U);
}

}  // namespace
}  // namespace troupe::actors::evaluation_test
