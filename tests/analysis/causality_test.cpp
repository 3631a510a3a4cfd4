#include "trace/analysis/causality.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::causality_test {
namespace {

/// One step's messages: the trainer's lookup is parked until its gradient of the previous step is applied.
struct parked_lookup {
  trace::made_recording made{1, 1};
  std::uint16_t server = made.server(0);
  std::uint16_t trainer = made.trainer(0);
  std::uint64_t rows1 = made.handled("rows", server, trainer, trace::us(5, 6, 10, 30), {.step = 1});
  std::uint64_t gradient =
      made.handled("gradient", trainer, server, trace::us(20, 21, 25, 45), {.step = 1, .cause = rows1});
  std::uint64_t lookup = made.handled("lookup", trainer, server, trace::us(15, 16, 22, 23),
                                      {.step = 2, .cause = rows1, .flags = flag::request | flag::parked});
  std::uint64_t rows2 = made.handled("rows", server, trainer, trace::us(44, 46, 50, 70),
                                     {.step = 2, .cause = lookup, .flags = flag::answer});

  parked_lookup() {
    made.released(server, rows2, gradient, trace::us(44));
    made.range(server, trace::range_name::pool, 2, trace::us(42), trace::us(44));
    made.range(server, trace::range_name::apply, 1, trace::us(25), trace::us(42));
    made.range(trainer, trace::range_name::prepare_batch, 2, trace::us(32), trace::us(40));
    made.range(trainer, trace::range_name::forward_backward, 2, trace::us(50), trace::us(60));
  }
};

TEST(Causality, FindsMessagesById) {
  parked_lookup one;
  const causality index(one.made.done());
  ASSERT_NE(index.handled(one.gradient), nullptr);
  EXPECT_EQ(index.handled(one.gradient)->begin, trace::us(25));
  EXPECT_EQ(index.handled(trace::made_id(one.trainer, 99)), nullptr);
  EXPECT_EQ(index.sent(one.gradient), nullptr);
}

TEST(Causality, TakesForAnAnswersTriggerWhatReleasedIt) {
  parked_lookup one;
  const causality index(one.made.done());
  EXPECT_EQ(index.trigger(*index.handled(one.rows2)), one.gradient);
  EXPECT_EQ(index.trigger(*index.handled(one.gradient)), one.rows1);
  EXPECT_EQ(index.trigger(*index.handled(one.rows1)), 0U);
  EXPECT_EQ(index.sent_in(*index.handled(one.rows2)), index.handled(one.gradient));
  const auto effects = index.effects(one.rows1);
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_EQ(effects[0]->id, one.lookup);
  EXPECT_EQ(effects[1]->id, one.gradient);
  EXPECT_TRUE(index.effects(one.lookup).empty());
}

TEST(Causality, ListsWhatAnActorDidInOrder) {
  parked_lookup one;
  const causality index(one.made.done());
  const auto trainer = index.activities(one.trainer);
  ASSERT_EQ(trainer.size(), 3U);
  EXPECT_EQ(trainer[0]->id, one.rows1);
  EXPECT_EQ(trainer[1]->what, trace::kind::range);
  EXPECT_EQ(trainer[2]->id, one.rows2);
  EXPECT_EQ(index.before(*trainer[1]), trainer[0]);
  EXPECT_EQ(index.before(*trainer[0]), nullptr);
  EXPECT_EQ(index.index_of(*trainer[2]), 2U);
  EXPECT_EQ(index.activity_at(one.trainer, trace::us(31)), trainer[0]);
  EXPECT_EQ(index.activity_at(one.trainer, trace::us(9)), nullptr);
  EXPECT_EQ(index.actors(), (std::vector<std::uint16_t>{one.server, one.trainer}));
  EXPECT_TRUE(index.activities(77).empty());
}

TEST(Causality, TellsNestedRangesFromTurns) {
  parked_lookup one;
  const causality index(one.made.done());
  const auto apply = index.ranges_in(*index.handled(one.gradient));
  ASSERT_EQ(apply.size(), 2U);
  EXPECT_EQ(apply[0]->begin, trace::us(25));
  EXPECT_EQ(apply[1]->begin, trace::us(42));
  EXPECT_TRUE(index.ranges_in(*index.handled(one.lookup)).empty());
  EXPECT_EQ(index.ranges_in(*index.handled(one.rows2)).size(), 1U);
}

TEST(Causality, PutsTheOuterOfTwoRangesThatBeginTogetherFirst) {
  trace::made_recording made;
  const auto trainer = made.trainer(0);
  made.range(trainer, trace::range_name::pool, 1, trace::us(10), trace::us(12));
  made.range(trainer, trace::range_name::forward_backward, 1, trace::us(10), trace::us(15));
  made.handled("train", 0, trainer, trace::us(8, 9, 10, 20));
  const causality index(made.done());
  ASSERT_EQ(index.activities(trainer).size(), 1U);
  EXPECT_EQ(index.activities(trainer)[0]->what, trace::kind::handled);
  const auto ranges = index.ranges_in(*index.activities(trainer)[0]);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0]->end, trace::us(15));
}

TEST(Causality, FindsTheTurnThatSentAMessageOfARememberedCause) {
  parked_lookup one;
  const auto later = one.made.handled("reduce", one.trainer, trace::made_recording::group, trace::us(35, 36, 37, 38),
                                      {.step = 1, .cause = one.rows1});
  const auto unknown = one.made.handled("reduce", one.trainer, trace::made_recording::group, trace::us(48, 48, 49, 49),
                                        {.step = 1, .cause = trace::made_id(9, 9)});
  const causality index(one.made.done());
  EXPECT_EQ(index.sent_in(*index.handled(later)), index.activities(one.trainer)[1]);
  EXPECT_EQ(index.sent_in(*index.handled(unknown)), nullptr);
}

}  // namespace
}  // namespace troupe::analysis::causality_test
