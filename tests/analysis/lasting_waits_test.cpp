// A running run, whose files are read one after the other while it moves: no blockage is reported. A stuck run is
// reported, even if it handles status requests meanwhile.

#include "trace/analysis/lasting_waits.hpp"

#include <gtest/gtest.h>

#include "tests/analysis/stuck_run.hpp"

namespace troupe::analysis::lasting_waits_test {

/// A run in three live processes, each read at its own time.
class live_run : public stuck_run {
 public:
  live_run() : stuck_run(1, 3) {
    spread();
    for (std::uint16_t i = 0; i < 3; ++i)
      ask_parked(master, trainer(i), "train", 0, trace::ms(1), std::uint64_t{10} + i);
  }

  void read_at(trace::nanoseconds master_process, trace::nanoseconds servers, trace::nanoseconds trainers) {
    const trace::nanoseconds moments[] = {master_process, servers, trainers};
    for (std::size_t i = 0; i < 3; ++i) {
      edit().processes[i].last = moments[i];
      edit().processes[i].alive = true;
    }
  }

  void send_lookup(std::uint64_t sequence, trace::nanoseconds when) {
    ask(trainer(0), server(0), "lookup", sequence, when, sequence);
    frame(trace::kind::sent, "lookup", trainer(0), server(0), when, {.step = sequence, .sequence = sequence});
  }

  /// Adds the server's answer to trainer 0, which has not arrived.
  void answer_lookup(trace::nanoseconds when) {
    const auto asked = ask(trainer(0), server(0), "lookup", 3, when - trace::ms(2), 4);
    handled("lookup", trainer(0), server(0), {when - trace::ms(2), when - trace::ms(1), when - trace::ms(1), when},
            {.step = 3, .flags = flag::request | flag::remote, .sequence = 4});
    frame(trace::kind::sent, "rows", server(0), trainer(0), when,
          {.step = 3, .cause = asked, .flags = flag::answer, .sequence = 99});
  }

  /// Since the first reading, actor `who` has handled `count` messages of that type.
  void handles(std::uint16_t who, std::string_view type_name, std::uint64_t count, trace::nanoseconds when) {
    for (std::uint64_t i = 0; i < count; ++i, ++actor(who).handled)
      handled(type_name, trace::client_actor, who, {when, when, when, when + trace::us(1)}, {.sequence = ++handled_});
  }

 private:
  std::uint64_t handled_ = 0;
};

// The server's file was read first: messages sent later cannot have arrived there.
TEST(LiveReading, WhatWasSentAfterTheReceiversFilesWereReadIsNotLost) {
  live_run r;
  r.send_lookup(7, trace::ms(1050));
  r.read_at(trace::ms(1000), trace::ms(1000), trace::ms(1600));
  const auto report = find_blocked(r.done());
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.server(0), wait_state::under_way)) << report.verdict;
  EXPECT_NE(report.what, blockage::never_arrived);
  EXPECT_TRUE(report.details.empty());
  r.read_at(trace::ms(1000), trace::ms(1600), trace::ms(1600));
  EXPECT_EQ(find_blocked(r.done()).what, blockage::never_arrived) << "now it should have";
}

// Like a server that writes to a hanging file system: its process does not read from the link meanwhile.
TEST(LiveReading, WhatIsSentToAnActorThatWorksWaitsForThatWork) {
  live_run r;
  r.at_work(r.server(0), "checkpointed", 3, trace::ms(900), trace::made_id(r.master, 50));
  r.send_lookup(7, trace::ms(1050));
  r.read_at(trace::ms(4900), trace::ms(4900), trace::ms(4900));
  const auto report = find_blocked(r.done());
  EXPECT_EQ(report.what, blockage::handler_running);
  EXPECT_TRUE(report.verdict.starts_with("server 0: handler running for 4.00 s")) << report.verdict;
}

// Like a process whose link thread runs a slow actor: it receives no messages for the others.
TEST(LiveReading, WhatIsSentToAProcessWhoseActorsWorkIsNotLost) {
  live_run r;
  r.at_work(r.trainer(1), "rows", 3, trace::ms(900), trace::made_id(r.server(0), 50));
  r.answer_lookup(trace::ms(1002));
  r.read_at(trace::ms(4900), trace::ms(4900), trace::ms(4900));
  auto report = find_blocked(r.done());
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.server(0), wait_state::under_way)) << report.verdict;
  EXPECT_EQ(report.what, blockage::handler_running) << report.verdict;
  EXPECT_EQ(report.root, r.trainer(1));
  r.actor(r.trainer(1)).message_begin = trace::ms(1003);
  report = find_blocked(r.done());
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.server(0), wait_state::never_arrived)) << "sent before it began";
}

// The answer was handed to a link of a process that was read before it could arrive.
TEST(LiveReading, AnAnswerToWhoWasReadBeforeIsNotLost) {
  live_run r;
  r.answer_lookup(trace::ms(1002));
  r.read_at(trace::ms(1900), trace::ms(1900), trace::ms(1050));
  const auto report = find_blocked(r.done());
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.server(0), wait_state::under_way)) << report.verdict;
  EXPECT_NE(report.what, blockage::never_arrived);
}

// An actor that has changed by the next reading was not blocked, whatever the first reading showed.
TEST(LiveReading, ARunThatMovesIsAccusedOfNothing) {
  live_run before;
  before.send_lookup(7, trace::ms(1000));
  before.call(1, {.number = 5, .since = trace::ms(800), .missing = {2}});
  before.read_at(trace::ms(1500), trace::ms(1500), trace::ms(1500));
  EXPECT_EQ(find_blocked(before.done()).what, blockage::never_arrived) << "seen alone";
  live_run after;
  after.send_lookup(9, trace::ms(1600));
  after.call(1, {.number = 6, .since = trace::ms(1601), .missing = {2}});
  for (std::uint16_t i = 0; i < 3; ++i) after.handles(after.trainer(i), "rows", 2, trace::ms(1590));
  after.handles(after.server(0), "lookup", 2, trace::ms(1595));
  after.read_at(trace::ms(2000), trace::ms(2000), trace::ms(2000));
  const auto report = find_blocked(before.done(), after.done());
  EXPECT_EQ(report.what, blockage::none);
  EXPECT_TRUE(report.is_moving());
  EXPECT_EQ(report.verdict, "the run continues: 8 messages were handled while it was looked at");
  EXPECT_TRUE(report.waits.empty());
  EXPECT_FALSE(report.root);
}

// The master waits for a trainer as long as the run lasts, which does not mean that the trainer is stuck.
TEST(LiveReading, AnIdleMomentOfATrainerThatMovesIsNoBlockage) {
  live_run before;
  before.read_at(trace::ms(1500), trace::ms(1500), trace::ms(1500));
  EXPECT_EQ(find_blocked(before.done()).what, blockage::idle) << "seen alone";
  live_run after;
  for (std::uint16_t i = 0; i < 3; ++i) after.handles(after.trainer(i), "rows", 1, trace::ms(1600));
  after.read_at(trace::ms(2000), trace::ms(2000), trace::ms(2000));
  EXPECT_EQ(find_blocked(before.done(), after.done()).what, blockage::none);
}

TEST(LiveReading, AHangIsNamedThoughOthersMoveAndAskHowItIs) {
  const auto hang = [](live_run& r) {
    r.call(0, {.number = 5, .since = trace::ms(800), .members = {0, 1}, .missing = {1}});
  };
  live_run before;
  hang(before);
  before.read_at(trace::ms(1500), trace::ms(1500), trace::ms(1500));
  live_run after;
  hang(after);
  after.handles(after.trainer(2), "rows", 100, trace::ms(1600));
  after.handles(after.server(0), "lookup", 100, trace::ms(1600));
  for (const std::uint16_t asked : {after.trainer(0), after.trainer(1)})
    after.handles(asked, "actor_query", 3, trace::ms(1700));
  after.read_at(trace::ms(2000), trace::ms(2000), trace::ms(2000));
  const auto report = find_blocked(before.done(), after.done());
  EXPECT_EQ(report.what, blockage::ranks_missing) << report.verdict;
  EXPECT_EQ(report.root, after.trainer(1));
  EXPECT_FALSE(report.is_moving());
  EXPECT_EQ(report.handled, 200U) << "questions do not count";
}

// A parked request waits for others, whatever else the server handles.
TEST(LiveReading, AServerThatMovesHidesNoHangBehindAParkedRequest) {
  const auto hang = [](live_run& r) {
    r.gradient(r.trainer(0), r.server(0), 12, trace::ms(200), 2);
    r.gradient(r.trainer(2), r.server(0), 12, trace::ms(200), 2);
    r.gradient(r.trainer(1), r.server(0), 11, trace::ms(100), 2);
    r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(201), 3);
  };
  live_run before;
  hang(before);
  before.read_at(trace::ms(1500), trace::ms(1500), trace::ms(1500));
  live_run after;
  hang(after);
  after.handles(after.server(0), "checkpointed", 5, trace::ms(1600));
  after.read_at(trace::ms(2000), trace::ms(2000), trace::ms(2000));
  EXPECT_EQ(find_blocked(before.done(), after.done()).root, after.trainer(1));
}

}  // namespace troupe::analysis::lasting_waits_test
