// A server's coming optimizer steps: which global steps belong to them, and their progress.

#include "actors/server/step_contexts.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace troupe::actors::step_contexts_test {
namespace {

msg::gradient gradient(std::uint32_t rank, std::uint64_t step, std::uint64_t sequence) {
  msg::gradient made;
  made.head.step = step;
  made.head.sequence = sequence;
  made.rank = rank;
  return made;
}

TEST(StepContexts, HaveNoRulesBeforeAModuleBringsThem) {
  step_contexts none;
  EXPECT_FALSE(none.have_begun());
  EXPECT_EQ(none.last_sequence(0), 0U);
  none.begin({.trainers = 2}, 0);
  EXPECT_TRUE(none.have_begun());
}

TEST(StepContexts, AnOptimizerStepHasAsManyGlobalStepsAsAreAccumulated) {
  step_contexts contexts;
  contexts.begin({.trainers = 1, .accumulate = 3}, 0);
  for (const auto& [step, update] : {std::pair{1, 1}, {3, 1}, {4, 2}, {6, 2}, {7, 3}})
    EXPECT_EQ(contexts.update_of(static_cast<std::uint64_t>(step)), static_cast<std::uint64_t>(update)) << step;
}

TEST(StepContexts, BeginAfterTheStepsOfACheckpointAlsoOfAShortOne) {
  step_contexts contexts;
  contexts.begin({.trainers = 1, .accumulate = 3}, 7);
  EXPECT_EQ(contexts.committed(), 3U) << "the third one was short";
  EXPECT_EQ(contexts.missing_before(10), 0U);
  EXPECT_EQ(contexts.missing_before(13), 1U);
}

/// Synchronous trainers are at most one step apart, their lookups two, and a trainer without a batch may be ahead by
/// one more.
TEST(StepContexts, AreOpenAsFarAsTrainersCanBeAhead) {
  step_contexts contexts;
  contexts.begin({.trainers = 2, .accumulate = 2}, 0);
  EXPECT_EQ(contexts.last_open_step(), 6U) << "three optimizer steps";
  contexts.next().complete = 2;
  EXPECT_TRUE(contexts.is_next_complete());
  contexts.commit();
  EXPECT_EQ(contexts.last_open_step(), 8U);
  step_contexts stale;
  stale.begin({.trainers = 2, .staleness = 2}, 0);
  EXPECT_EQ(stale.last_open_step(), 7U);
}

TEST(StepContexts, ACommittedOneIsFreeForAnother) {
  step_contexts contexts;
  contexts.begin({.trainers = 2}, 0);
  step_context& first = contexts.next();
  contexts.add(gradient(1, 1, 5));
  first.keeps = true;
  first.complete = 2;
  for (contribution& rank : first.ranks) rank.complete = rank.wants_norm = true;
  EXPECT_EQ(contexts.last_sequence(1), 5U);
  EXPECT_EQ(first.ranks[1].parts.size(), 1U);
  contexts.commit();
  EXPECT_EQ(contexts.committed(), 1U);
  EXPECT_NE(&contexts.next(), &first);
  EXPECT_EQ(&contexts.of(4), &first) << "there are three";
  EXPECT_EQ(first.complete, 0U);
  EXPECT_FALSE(first.keeps);
  for (const contribution& rank : first.ranks) EXPECT_FALSE(rank.complete || rank.wants_norm);
}

TEST(StepContexts, OneGradientAsksForACheckpointForAll) {
  step_contexts contexts;
  contexts.begin({.trainers = 2}, 0);
  msg::gradient keeps = gradient(0, 1, 1);
  keeps.keeps = true;
  contexts.add(std::move(keeps));
  contexts.add(gradient(1, 1, 1));
  EXPECT_TRUE(contexts.next().keeps);
}

TEST(StepContexts, AsyncRanksTakeTheirOwnStepsAndTheSlowestCounts) {
  step_contexts contexts;
  contexts.begin({.trainers = 2, .staleness = model::any_staleness}, 4);
  EXPECT_TRUE(contexts.is_async());
  EXPECT_EQ(contexts.last_open_step(), UINT64_MAX);
  EXPECT_EQ(contexts.of_all(), 4U);
  contexts.commit(9, 0);
  EXPECT_EQ(contexts.of_all(), 4U);
  contexts.commit(6, 1);
  EXPECT_EQ(contexts.of_all(), 6U);
  EXPECT_EQ(contexts.missing_before(9), 2U);
  EXPECT_EQ(contexts.committed(), 4U) << "there is no step in common";
}

}  // namespace
}  // namespace troupe::actors::step_contexts_test
