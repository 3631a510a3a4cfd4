#include "model/sampler.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::model::sampler_test {
namespace {

// The rows of all ranks in an epoch, ordered by step, rank and sample.
std::vector<std::uint64_t> epoch_rows(const sharded_sampler& sampler, std::uint64_t epoch, std::uint64_t ranks) {
  std::vector<std::uint64_t> rows;
  const std::uint64_t steps = sampler.epochs().steps_until(1);
  for (std::uint64_t step = epoch * steps; step < (epoch + 1) * steps; ++step) {
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const auto share = sampler.of(step, rank);
      for (std::size_t i = 0; i < share.size(); ++i) rows.push_back(share.row(i));
    }
  }
  return rows;
}

TEST(Sampler, EveryRowIsTakenOnceAnEpoch) {
  for (const std::uint64_t total : {1U, 2U, 7U, 64U, 100U, 333U}) {
    for (const std::uint64_t ranks : {1U, 2U, 3U, 5U, 8U}) {
      for (const std::uint64_t batch : {1U, 4U, 50U, 1000U}) {
        const sharded_sampler sampler(total, ranks, batch, 1);
        for (const std::uint64_t epoch : {0U, 1U, 9U}) {
          std::vector<int> times(total);
          for (const std::uint64_t row : epoch_rows(sampler, epoch, ranks)) ++times.at(row);
          ASSERT_EQ(times, std::vector<int>(total, 1)) << total << " rows, " << ranks << " ranks, batch " << batch;
        }
      }
    }
  }
}

TEST(Sampler, OrderDiffersBetweenEpochsAndSeeds) {
  const sharded_sampler sampler(100, 2, 10, 1);
  EXPECT_EQ(epoch_rows(sampler, 0, 2), epoch_rows(sampler, 0, 2));
  EXPECT_NE(epoch_rows(sampler, 0, 2), epoch_rows(sampler, 1, 2));
  EXPECT_NE(epoch_rows(sampler, 0, 2), epoch_rows(sharded_sampler(100, 2, 10, 2), 0, 2));
}

// 11 rows for 2 ranks in batches of 5: rank 0 has 6 rows (5 and 1), rank 1 has 5 (5 and none).
TEST(Sampler, TailsAreUneven) {
  const sharded_sampler sampler(11, 2, 5, 1);
  EXPECT_EQ(sampler.epochs().steps_until(1), 2U);
  EXPECT_EQ(sampler.of(0, 0).size(), 5U);
  EXPECT_EQ(sampler.of(0, 1).size(), 5U);
  EXPECT_EQ(sampler.of(1, 0).size(), 1U);
  EXPECT_EQ(sampler.of(1, 1).size(), 0U);
  EXPECT_EQ(sampler.of(2, 1).size(), 5U);
}

TEST(Sampler, MoreRanksThanRowsLeavesSomeWithout) {
  const sharded_sampler sampler(3, 5, 10, 1);
  EXPECT_EQ(sampler.epochs().steps_until(1), 1U);
  for (std::uint64_t rank = 0; rank < 5; ++rank) EXPECT_EQ(sampler.of(0, rank).size(), rank < 3 ? 1U : 0U) << rank;
}

// The documentation promises that rank r uses indices r, r + ranks, ... of the epoch's permutation.
TEST(Sampler, RanksTakeTurnsInThePermutation) {
  const sharded_sampler sampler(100, 3, 7, 5);
  const std::uint64_t key = random_key(5, random_stream::shuffle, 2);
  const auto share = sampler.of(2 * sampler.epochs().steps_until(1) + 1, 2);
  ASSERT_EQ(share.size(), 7U);
  for (std::size_t i = 0; i < share.size(); ++i) EXPECT_EQ(share.row(i), shuffled(100, key, 2 + (7 + i) * 3));
}

}  // namespace
}  // namespace troupe::model::sampler_test
