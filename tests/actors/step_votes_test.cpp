// What ranks agree on in a step, from their votes.

#include "actors/trainer/step_votes.hpp"

#include <gtest/gtest.h>

namespace troupe::actors::step_votes_test {
namespace {

TEST(StepVotes, OwnOnesDecideNothing) {
  step_votes votes;
  votes.vote_to_stop();
  votes.vote_to_save(true);
  EXPECT_TRUE(votes.own().stop);
  EXPECT_TRUE(votes.own().save);
  EXPECT_FALSE(votes.stops());
  EXPECT_FALSE(votes.saves());
}

TEST(StepVotes, OneOfAllIsEnoughAndStays) {
  step_votes votes;
  votes.count({.stop = true});
  votes.count({.save = true});
  votes.count({});
  EXPECT_TRUE(votes.stops());
  EXPECT_TRUE(votes.saves());
  EXPECT_FALSE(votes.own().stop);
}

TEST(StepVotes, ForACheckpointAreForgottenWhenItIsTakenThoseToStopNever) {
  step_votes votes;
  votes.vote_to_stop();
  votes.count({.stop = true, .save = true});
  EXPECT_TRUE(votes.take_save());
  EXPECT_FALSE(votes.take_save());
  votes.vote_to_save(true);
  votes.vote_to_save(false);
  EXPECT_FALSE(votes.own().save);
  EXPECT_TRUE(votes.stops());
  EXPECT_TRUE(votes.own().stop);
}

TEST(StepVotes, ToStopEndTheRunWithTheLastStepThatHasBegun) {
  step_votes votes;
  votes.count({.save = true}, 3, 5);
  EXPECT_EQ(votes.last(), std::nullopt);
  votes.count({.stop = true}, 4, 6);
  EXPECT_EQ(votes.last(), 6U);
  votes.count({.stop = true}, 5, 6);
  EXPECT_FALSE(votes.stops());
  votes.count({}, 6, 6);
  EXPECT_TRUE(votes.stops());
  EXPECT_TRUE(votes.saves());
}

TEST(StepVotes, ToStopCountAtOnceWhereStepsDoNotOverlap) {
  step_votes votes;
  votes.count({.stop = true}, 4, 4);
  EXPECT_TRUE(votes.stops());
}

}  // namespace
}  // namespace troupe::actors::step_votes_test
