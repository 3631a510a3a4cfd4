// A rank's checkpoints: when it hands over its state, when it pauses, and what servers keep.

#include "actors/trainer/rank_checkpoint.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace troupe::actors::rank_checkpoint_test {
namespace {

using phase = rank_checkpoint::phase;
constexpr rank_checkpoint::clock::time_point t1{std::chrono::seconds(1)};
constexpr rank_checkpoint::clock::time_point t2{std::chrono::seconds(2)};

TEST(RankCheckpoint, IsWrittenWhileTrainingGoesOn) {
  rank_checkpoint one;
  EXPECT_TRUE(one.begin(t1));
  EXPECT_EQ(one.paused_since(), t1);
  one.handed_over(5, true);
  EXPECT_TRUE(one.take_keeps());
  EXPECT_FALSE(one.take_keeps());
  EXPECT_EQ(one.written(7), phase::writing);
  EXPECT_FALSE(one.is_due());
  EXPECT_TRUE(one.begin(t2));
}

TEST(RankCheckpoint, IsWaitedForAtTheEnd) {
  rank_checkpoint one;
  EXPECT_TRUE(one.begin(t1));
  one.handed_over(5, false);
  EXPECT_FALSE(one.take_keeps());
  EXPECT_EQ(one.written(5), phase::awaited);
}

TEST(RankCheckpoint, FollowsTheOneBefore) {
  rank_checkpoint one;
  EXPECT_TRUE(one.begin(t1));
  one.handed_over(5, true);
  EXPECT_FALSE(one.begin(t2));
  EXPECT_FALSE(one.is_due());
  EXPECT_EQ(one.written(8), phase::queued);
  EXPECT_TRUE(one.is_due());
  EXPECT_EQ(one.paused_since(), t2);
  one.handed_over(8, false);
  EXPECT_EQ(one.written(8), phase::awaited);
}

TEST(RankCheckpoint, KnowsTheStepOfTheLastOne) {
  rank_checkpoint one;
  one.start(4);
  EXPECT_EQ(one.last_step(), 4U) << "the one that the run continues from";
  one.handed_over(6, true);
  EXPECT_EQ(one.last_step(), 6U);
}

TEST(RankCheckpoint, ByTimeIsForAllRanksToKnowAndForRank0ToDecide) {
  msg::train order;
  order.saves = true;
  order.checkpoint_seconds = 1e-9;
  for (const std::uint32_t rank : {0U, 1U}) {
    rank_checkpoint one;
    one.plan(order, rank);
    one.start(0);
    EXPECT_TRUE(one.is_by_time());
    EXPECT_EQ(one.is_due_by_time(), rank == 0);
  }
  order.saves = false;
  rank_checkpoint none;
  none.plan(order, 0);
  none.start(0);
  EXPECT_FALSE(none.is_by_time());
  EXPECT_FALSE(none.is_due_by_time());
}

TEST(RankCheckpoint, AnotherOneFollowsOneThatWasNotTaken) {
  rank_checkpoint one;
  EXPECT_TRUE(one.begin(t1));
  one.handed_over(5, false);
  one.given_up();
  EXPECT_TRUE(one.begin(t2));
  one.handed_over(8, false);
  EXPECT_EQ(one.written(8), phase::awaited);
}

TEST(RankCheckpointDeathTest, TakesNoOtherWay) {
  rank_checkpoint one;
  EXPECT_DEATH(one.given_up(), "awaited");
  EXPECT_DEATH(one.written(1), "may_follow");
  one.handed_over(1, false);
  EXPECT_DEATH(one.begin(t1), "may_follow");
}

}  // namespace
}  // namespace troupe::actors::rank_checkpoint_test
