#include "trace/analysis/step_graph.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/analysis/path_parts.hpp"
#include "tests/analysis/synchronous_run.hpp"

namespace troupe::analysis::step_graph_test {
namespace {

TEST(StepGraph, FollowsMessagesAndProgramOrderBackFromTheCommit) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const step_windows windows = find_steps(run);
  ASSERT_EQ(windows.whole.size(), 1U);
  const step_graph graph(index, windows.whole[0]);
  EXPECT_EQ(parts(run, graph.critical_path()),
            (std::vector<part>{{"pool (server 1) queue", trace::ms(1)},
                               {"pool (server 1)", trace::ms(1)},
                               {"rows wire (server 1 to trainer 0)", trace::us(100)},
                               {"rows wait (trainer 0)", trace::us(100)},
                               {"forward/backward (trainer 0)", trace::ms(20)},
                               {"gradient wire (trainer 0 to server 1)", trace::us(500)},
                               {"apply (server 1)", trace::ms(8)}}));
}

TEST(StepGraph, NamesTheMessagesOfThePath) {
  synchronous_run one({trace::ms(8), trace::ms(8), trace::ms(8)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const auto path = step_graph(index, find_steps(run).whole[1]).critical_path();
  ASSERT_EQ(path.size(), 7U);
  EXPECT_EQ(run.type_name(index.handled(path[0].id)->type), "gradient");
  EXPECT_EQ(run.type_name(index.handled(path[0].queued)->type), "lookup");
  EXPECT_EQ(path[0].queued, path[1].id);
  EXPECT_EQ(path[4].id, one.rows_of_1);
  EXPECT_EQ(path[6].id, one.gradient_of_0);
}

TEST(StepGraph, TellsBySlackHowMuchLongerOthersCouldHaveWorked) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  auto slack = step_graph(index, find_steps(run).whole[0]).slack();
  const auto& made = one.made;
  EXPECT_EQ(slack.at(made.trainer(0)).slack, 0);
  EXPECT_EQ(slack.at(made.server(1)).slack, 0);
  EXPECT_EQ(what_text(run, slack.at(made.server(1)).longest), "apply");
  // Trainer 1's lookup must be parked before trainer 0's gradient arrives.
  EXPECT_EQ(slack.at(made.trainer(1)).slack, trace::us(5800));
  EXPECT_EQ(slack.at(made.trainer(1)).longest_time, trace::ms(15));
  EXPECT_EQ(slack.at(made.server(0)).slack, trace::ms(3));
  EXPECT_EQ(slack.at(trace::made_recording::group).slack, trace::us(4700));
  EXPECT_EQ(slack.at(trace::made_recording::group).working, trace::us(550));
  EXPECT_FALSE(slack.contains(trace::made_recording::master));
}

TEST(StepGraph, RecomputesThePathWhereSomethingTakesLess) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const step_graph graph(index, find_steps(run).whole[0]);
  const path_part forward{path_category::work, one.made.trainer(0), 0, 0, trace::range_name::forward_backward};
  EXPECT_EQ(parts(run, graph.longest_path(forward, 0.5)),
            (std::vector<part>{{"pool (server 1)", trace::ms(1)},
                               {"rows wire (server 1 to trainer 1)", trace::us(100)},
                               {"forward/backward (trainer 1)", trace::ms(15)},
                               {"gradient wire (trainer 1 to server 1)", trace::us(500)},
                               {"gradient (server 1) queue", trace::us(200)},
                               {"lookup (server 1) queue", trace::us(100)},
                               {"apply (server 1)", trace::ms(8)}}));
}

TEST(StepGraph, SaysIdleWhereNoRecordTellsWhatWasDone) {
  trace::made_recording made(1, 1);
  const auto server = made.server(0);
  const auto trainer = made.trainer(0);
  made.range(trainer, trace::range_name::prepare_batch, 1, trace::ms(12), trace::ms(15));
  const auto gradient = made.handled("gradient", trainer, server, trace::ms(18, 20, 21, 25), {.step = 1});
  const trace::recording& run = made.done();
  const causality index(run);
  const step_graph graph(index, {1, trace::ms(10), trace::ms(25), {{server, trace::ms(25)}}});
  EXPECT_EQ(parts(run, graph.critical_path()),
            (std::vector<part>{{"idle (trainer 0)", trace::ms(2)},
                               {"prepare batch (trainer 0)", trace::ms(3)},
                               {"idle (trainer 0)", trace::ms(3)},
                               {"gradient wire (trainer 0 to server 0)", trace::ms(2)},
                               {"gradient wait (server 0)", trace::ms(1)},
                               {"gradient (server 0)", trace::ms(4)}}));
  EXPECT_EQ(graph.critical_path().back().id, gradient);
}

TEST(StepGraph, CountsTheTimeBeforeATurnOfAnActorsOwnAsItsWaiting) {
  trace::made_recording made(1, 1);
  const auto trainer = made.trainer(0);
  made.handled("rows", 2, trainer, trace::ms(8, 9, 10, 11), {.step = 1});
  trace::event turn;
  turn.what = trace::kind::timer;
  turn.actor = trainer;
  turn.begin = trace::ms(14);
  turn.end = trace::ms(20);
  made.add(turn);
  made.range(trainer, trace::range_name::prepare_batch, 2, trace::ms(15), trace::ms(20));
  EXPECT_EQ(critical_parts(made.done(), {1, trace::ms(10), trace::ms(20), {{trainer, trace::ms(20)}}}),
            (std::vector<part>{{"rows (trainer 0)", trace::ms(1)},
                               {"own turn wait (trainer 0)", trace::ms(3)},
                               {"own turn (trainer 0)", trace::ms(1)},
                               {"prepare batch (trainer 0)", trace::ms(5)}}));
}

TEST(StepGraph, OfAnEmptyRecordingIsIdle) {
  const trace::recording run;
  const causality index(run);
  const auto path = step_graph(index, {1, trace::ms(10), trace::ms(25), {{3, trace::ms(25)}}}).critical_path();
  ASSERT_EQ(path.size(), 1U);
  EXPECT_EQ(path[0].what.what, path_category::idle);
  EXPECT_EQ(path[0].duration(), trace::ms(15));
}

/// Random actors, which handle messages one after the other and send others meanwhile.
class random_run {
 public:
  explicit random_run(unsigned seed) : random_(seed) {
    constexpr int actors = 4;
    std::vector<trace::nanoseconds> free(actors, 0);
    std::vector<trace::made_message> under_way;
    for (std::uint16_t actor = 0; actor < actors; ++actor) {
      under_way.push_back(
          {.from = actor, .to = static_cast<std::uint16_t>((actor + 1) % actors), .type = "m", .arrived = draw(5)});
    }
    while (!under_way.empty() && handled_ < 400) {
      // The message that is handled next.
      const auto start = [&](const trace::made_message& m) { return std::max(m.arrived, free[m.to]); };
      const auto next = std::ranges::min_element(under_way, {}, start);
      trace::made_message m = *next;
      under_way.erase(next);
      m.begin = start(m) + draw(2);
      m.end = m.begin + draw(30);
      free[m.to] = m.end;
      const std::uint64_t id = made.handled(m);
      ++handled_;
      if (draw(3) == 0) made.range(m.to, trace::range_name::apply, 1, m.begin + (m.end - m.begin) / 3, m.end);
      if (draw(4) == 0) {
        const trace::nanoseconds turn = m.end + draw(4);
        free[m.to] = turn + draw(10);
        made.range(m.to, trace::range_name::save, 1, turn, free[m.to]);
      }
      for (trace::nanoseconds i = draw(2); i >= 0 && under_way.size() < 12; --i) {
        trace::made_message out{
            .from = m.to, .to = static_cast<std::uint16_t>(draw(actors - 1)), .type = "m", .cause = id};
        out.sent = m.begin + draw(m.end - m.begin);
        out.arrived = out.sent + draw(8);
        under_way.push_back(out);
      }
    }
  }

  trace::nanoseconds draw(trace::nanoseconds most) {
    return std::uniform_int_distribution<trace::nanoseconds>(0, most)(random_);
  }

  trace::made_recording made;

 private:
  std::mt19937 random_;
  int handled_ = 0;
};

TEST(StepGraph, HasPathsWithoutGapsThatAddUp) {
  std::size_t segments = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    random_run one(seed);
    if (seed % 2 == 0)  // in half of the runs, the process does not run at some times
      for (trace::nanoseconds at = one.draw(40); at < one.made.edit().processes[0].last; at += 20 + one.draw(40))
        one.made.stalled(0, at, at + one.draw(20));
    const trace::recording& run = one.made.done();
    const causality index(run);
    for (int i = 0; i < 10; ++i) {
      const trace::event& last =
          run.events[static_cast<std::size_t>(one.draw(static_cast<trace::nanoseconds>(run.events.size()) - 1))];
      const trace::nanoseconds begin = one.draw(last.end);
      const step_graph graph(index, {1, begin, last.end, {{last.actor, last.end}}});
      const auto path = graph.critical_path();
      trace::nanoseconds at = begin;
      for (const path_segment& segment : path) {
        ASSERT_EQ(segment.begin, at) << "seed " << seed;
        ASSERT_LT(segment.begin, segment.end);
        at = segment.end;
      }
      ASSERT_EQ(at, last.end) << "seed " << seed;
      segments += path.size();
      if (path.empty()) continue;
      trace::nanoseconds faster = 0;
      for (const path_segment& segment : graph.longest_path(path.back().what, 0.5)) faster += segment.duration();
      ASSERT_LE(faster, last.end - begin);
      for (const auto& [actor, slack_of_actor] : graph.slack()) {
        if (slack_of_actor.slack) {
          ASSERT_GE(*slack_of_actor.slack, 0) << "seed " << seed;
        }
      }
    }
  }
  EXPECT_GT(segments, 5'000U);
}

}  // namespace
}  // namespace troupe::analysis::step_graph_test
