#include "trace/analysis/steps.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::steps_test {
namespace {

/// Steps 1 to 4 of two trainers and two servers, 10 ms each; server 1 commits last.
trace::made_recording four_steps() {
  trace::made_recording made(2, 2);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    const auto begin = trace::ms(static_cast<std::int64_t>(step) * 10);
    made.step(made.trainer(0), step, begin, begin + trace::ms(5));
    made.step(made.trainer(1), step, begin, begin + trace::ms(6));
    made.range(made.server(0), trace::range_name::apply, step, begin + trace::ms(4), begin + trace::ms(7));
    made.range(made.server(1), trace::range_name::apply, step, begin + trace::ms(4), begin + trace::ms(8));
  }
  return made;
}

TEST(Steps, OfASynchronousRunReachFromCommitToCommit) {
  trace::made_recording made = four_steps();
  const step_windows found = find_steps(made.done());
  EXPECT_TRUE(found.common);
  ASSERT_EQ(found.whole.size(), 3U);
  EXPECT_EQ(found.incomplete, 1U);  // the end of step 0 is unknown
  EXPECT_EQ(found.whole[0].step, 2U);
  EXPECT_EQ(found.whole[0].begin, trace::ms(18));
  EXPECT_EQ(found.whole[0].end, trace::ms(28));
  EXPECT_EQ(found.whole[0].commits.size(), 4U);
}

TEST(Steps, ThatAreOverwrittenInPartAreLeftOut) {
  trace::made_recording made = four_steps();
  trace::recording& run = made.edit();
  run.processes[0].overwritten = 100;
  run.processes[0].complete_from = trace::ms(20);
  made.done();
  std::erase_if(run.events, [](const trace::event& one) { return one.begin < trace::ms(20); });
  const step_windows found = find_steps(run);
  ASSERT_EQ(found.whole.size(), 2U);  // the beginning of step 2 is missing
  EXPECT_EQ(found.whole[0].step, 3U);
  EXPECT_EQ(found.incomplete, 1U);
}

TEST(Steps, ThatATrainerOrServerHasNotDoneAreLeftOut) {
  trace::made_recording made = four_steps();
  made.step(made.trainer(0), 5, trace::ms(50), trace::ms(55));
  trace::recording& run = made.edit();
  std::erase_if(run.events, [](const trace::event& one) {
    return one.what == trace::kind::range && one.step == 3 && one.actor == 2;
  });
  const step_windows found = find_steps(made.done());
  ASSERT_EQ(found.whole.size(), 1U);
  EXPECT_EQ(found.whole[0].step, 2U);
  EXPECT_EQ(found.incomplete, 4U);
}

TEST(Steps, ThatNoServerAppliesAreWhole) {
  trace::made_recording made = four_steps();
  std::erase_if(made.edit().events,
                [](const trace::event& one) { return one.what == trace::kind::range && one.step == 3; });
  const step_windows found = find_steps(made.done());
  ASSERT_EQ(found.whole.size(), 3U);
  EXPECT_EQ(found.whole[1].end, trace::ms(36));
}

TEST(Steps, AreATrainersOwnWhereServersApplyThemInParts) {
  trace::made_recording made = four_steps();
  made.range(made.server(0), trace::range_name::apply, 2, trace::ms(40), trace::ms(41));
  const step_windows found = find_steps(made.done());
  EXPECT_FALSE(found.common);
  ASSERT_EQ(found.whole.size(), 6U);
  EXPECT_EQ(found.incomplete, 2U);
  EXPECT_EQ(found.whole[0].begin, trace::ms(15));
  EXPECT_EQ(found.whole[0].end, trace::ms(25));
  ASSERT_EQ(found.whole[0].commits.size(), 1U);
  EXPECT_EQ(found.whole[0].commits[0].actor, made.trainer(0));
}

TEST(Steps, AreATrainersOwnWhereRowsLackSteps) {
  trace::made_recording made = four_steps();
  made.handled("rows", 2, made.trainer(0), trace::ms(0, 0, 30, 31), {.step = 3, .aux = 1});
  EXPECT_FALSE(find_steps(made.done()).common);
}

TEST(Steps, AreFoundByNumberOrTheErrorNamesWhichThereAre) {
  trace::made_recording made = four_steps();
  const step_windows found = find_steps(made.done());
  const auto third = find_step(found, 3);
  ASSERT_TRUE(third);
  ASSERT_EQ(third->size(), 1U);
  EXPECT_EQ(third->front()->end, trace::ms(38));
  const auto none = find_step(found, 1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "step 1: the recording holds whole steps between 2 and 4, not this one");
  EXPECT_EQ(find_step({}, 1).error().message, "step 1: the recording holds no whole step");
}

TEST(Steps, HaveTheirPercentilesByTheNearestRank) {
  const auto steps_of = [](int count) {  // steps that take 1, 2, ... `count` ns
    step_windows all;
    for (int i = 1; i <= count; ++i) all.whole.push_back({static_cast<std::uint64_t>(i), 0, i, {}});
    return all;
  };
  EXPECT_EQ(step_time(steps_of(30), 50), 15);
  EXPECT_EQ(step_time(steps_of(30), 95), 29);  // 28 of 30 are 93 %
  EXPECT_EQ(step_time(steps_of(10), 95), 10);
  EXPECT_EQ(step_time(steps_of(0), 95), 0);
}

}  // namespace
}  // namespace troupe::analysis::steps_test
