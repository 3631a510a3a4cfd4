#include "analysis/causality.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::causality_test {
namespace {

/// One step's messages: the trainer's lookup is parked until its gradient of the step before has been applied.
struct parked_lookup {
  trace::made_recording made{1, 1};
  std::uint16_t server = made.server(0);
  std::uint16_t trainer = made.trainer(0);
  std::uint64_t rows1 = made.handled({.from = server,
                                      .to = trainer,
                                      .type = "rows",
                                      .step = 1,
                                      .sent = trace::us(5),
                                      .arrived = trace::us(6),
                                      .begin = trace::us(10),
                                      .end = trace::us(30)});
  std::uint64_t gradient = made.handled({.from = trainer,
                                         .to = server,
                                         .type = "gradient",
                                         .step = 1,
                                         .cause = rows1,
                                         .sent = trace::us(20),
                                         .arrived = trace::us(21),
                                         .begin = trace::us(25),
                                         .end = trace::us(45)});
  std::uint64_t lookup = made.handled({.from = trainer,
                                       .to = server,
                                       .type = "lookup",
                                       .step = 2,
                                       .cause = rows1,
                                       .sent = trace::us(15),
                                       .arrived = trace::us(16),
                                       .begin = trace::us(22),
                                       .end = trace::us(23),
                                       .flags = flag::request | flag::parked});
  std::uint64_t rows2 = made.handled({.from = server,
                                      .to = trainer,
                                      .type = "rows",
                                      .step = 2,
                                      .cause = lookup,
                                      .sent = trace::us(44),
                                      .arrived = trace::us(46),
                                      .begin = trace::us(50),
                                      .end = trace::us(70),
                                      .flags = flag::answer});

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
  const trace::recording& run = one.made.done();
  const causality index(run);
  ASSERT_NE(index.handled(one.gradient), nullptr);
  EXPECT_EQ(index.handled(one.gradient)->begin, trace::us(25));
  EXPECT_EQ(index.handled(trace::made_id(one.trainer, 99)), nullptr);
  EXPECT_EQ(index.sent(one.gradient), nullptr);
}

TEST(Causality, TakesForAnAnswersTriggerWhatReleasedIt) {
  parked_lookup one;
  const trace::recording& run = one.made.done();
  const causality index(run);
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
  const trace::recording& run = one.made.done();
  const causality index(run);
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
  const trace::recording& run = one.made.done();
  const causality index(run);
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
  made.handled({.from = 0,
                .to = trainer,
                .type = "train",
                .sent = trace::us(8),
                .arrived = trace::us(9),
                .begin = trace::us(10),
                .end = trace::us(20)});
  const trace::recording& run = made.done();
  const causality index(run);
  ASSERT_EQ(index.activities(trainer).size(), 1U);
  EXPECT_EQ(index.activities(trainer)[0]->what, trace::kind::handled);
  const auto ranges = index.ranges_in(*index.activities(trainer)[0]);
  ASSERT_EQ(ranges.size(), 2U);
  EXPECT_EQ(ranges[0]->end, trace::us(15));
}

TEST(Causality, FindsTheTurnThatSentAMessageOfARememberedCause) {
  parked_lookup one;
  const auto later = one.made.handled({.from = one.trainer,
                                       .to = trace::made_recording::group,
                                       .type = "reduce",
                                       .step = 1,
                                       .cause = one.rows1,
                                       .sent = trace::us(35),
                                       .arrived = trace::us(36),
                                       .begin = trace::us(37),
                                       .end = trace::us(38)});
  const auto unknown = one.made.handled({.from = one.trainer,
                                         .to = trace::made_recording::group,
                                         .type = "reduce",
                                         .step = 1,
                                         .cause = trace::made_id(9, 9),
                                         .sent = trace::us(48),
                                         .arrived = trace::us(48),
                                         .begin = trace::us(49),
                                         .end = trace::us(49)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  EXPECT_EQ(index.sent_in(*index.handled(later)), index.activities(one.trainer)[1]);
  EXPECT_EQ(index.sent_in(*index.handled(unknown)), nullptr);
}

}  // namespace
}  // namespace troupe::analysis::causality_test
