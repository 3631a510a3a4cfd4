#include "analysis/blocked.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::blocked_test {

namespace {

/// A run over several processes: servers in process 1, trainers in process 2, all others in process 0.
class stuck_run : public trace::made_recording {
 public:
  using trace::made_recording::made_recording;

  void spread() {
    for (trace::actor_state& one : edit().actors) one.process = one.name.starts_with("server") ? 1 : 0;
    for (trace::actor_state& one : edit().actors)
      if (one.name.starts_with("trainer")) one.process = 2;
    edit().processes.resize(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      edit().processes[i].pid = 100 + i;
      edit().processes[i].node = i;
    }
  }

  /// A request that is not answered, as the board of `who` has it; its id.
  std::uint64_t ask(std::uint16_t who, std::uint16_t peer, std::string_view type_name, std::uint64_t at_step,
                    trace::nanoseconds since, std::uint64_t sequence) {
    const std::uint64_t id = trace::made_id(who, sequence);
    actor(who).open.push_back({id, type(type_name), peer, at_step, since});
    actor(who).last_sent = std::max(actor(who).last_sent, sequence);
    return id;
  }

  /// Such a one that `peer` has handled and parked.
  std::uint64_t ask_parked(std::uint16_t who, std::uint16_t peer, std::string_view type_name, std::uint64_t at_step,
                           trace::nanoseconds since, std::uint64_t sequence, std::uint16_t aux = 0) {
    const std::uint64_t id = ask(who, peer, type_name, at_step, since, sequence);
    handled({.from = who,
             .to = peer,
             .type = type_name,
             .step = at_step,
             .sent = since,
             .arrived = since,
             .begin = since,
             .end = since + trace::us(10),
             .flags = flag::request | flag::parked,
             .aux = aux,
             .sequence = sequence});
    return id;
  }

  void gradient(std::uint16_t from, std::uint16_t to, std::uint64_t at_step, trace::nanoseconds when,
                std::uint64_t sequence) {
    handled({.from = from,
             .to = to,
             .type = "gradient",
             .step = at_step,
             .sent = when,
             .arrived = when,
             .begin = when,
             .end = when + trace::us(10),
             .sequence = sequence});
    actor(from).last_sent = std::max(actor(from).last_sent, sequence);
  }

  void launch(std::uint16_t rank, std::uint64_t sequence, std::uint64_t at_step, std::uint64_t id,
              trace::nanoseconds when, std::uint16_t to = group) {
    trace::event e;
    e.what = trace::kind::collective_launch;
    e.actor = to;
    e.aux = rank;
    e.cause = sequence;
    e.step = at_step;
    e.id = id;
    e.begin = e.end = when;
    add(e);
  }

  void mark(trace::kind what, std::uint16_t who, trace::nanoseconds when, std::uint16_t aux = 0, std::uint64_t id = 0) {
    trace::event e;
    e.what = what;
    e.actor = who;
    e.aux = aux;
    e.id = id;
    e.begin = e.end = when;
    add(e);
  }

  void at_work(std::uint16_t who, std::string_view type_name, std::uint64_t at_step, trace::nanoseconds since,
               std::uint64_t message) {
    trace::actor_state& state = actor(who);
    state.message = message;
    state.message_type = type(type_name);
    state.message_begin = since;
    state.step = at_step;
  }

  blocked_report now(trace::nanoseconds when) {
    for (trace::process_info& one : edit().processes)
      if (one.end == trace::ending::none) one.last = std::max(one.last, when);
    return find_blocked(done());
  }
};

bool has_wait(const blocked_report& report, std::uint16_t who, std::uint16_t on, wait_state state) {
  return std::ranges::any_of(
      report.waits, [&](const wait_edge& one) { return one.who == who && one.on == on && one.state == state; });
}

}  // namespace

TEST(Blocked, ACleanEndIsNotBlocked) {
  stuck_run r(1, 1);
  r.edit().processes[0].end = trace::ending::clean;
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1), 5);
  r.mark(trace::kind::exit, r.trainer(0), trace::ms(2), 9);  // as it was told to
  const auto report = find_blocked(r.done());
  EXPECT_EQ(report.what, blockage::none);
  EXPECT_EQ(report.verdict, "nothing is blocked: the run has ended as it should");
  EXPECT_TRUE(report.waits.empty());
}

TEST(Blocked, WhatHasJustBeenSentIsUnderWay) {
  stuck_run r(1, 1);
  r.spread();
  const auto id = r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 5);
  r.frame(trace::kind::sent,
          {.from = r.trainer(0), .to = r.server(0), .type = "lookup", .sent = trace::ms(1000), .sequence = 5});
  const auto report = r.now(trace::ms(1003));
  EXPECT_EQ(report.what, blockage::none) << report.verdict;
  EXPECT_EQ(report.verdict,
            "no blockage is certain: answer to lookup #5 (step 3) was under way from "
            "trainer 0 to server 0 for 3.0 ms");
  ASSERT_EQ(report.waits.size(), 1U);
  EXPECT_EQ(report.waits[0].state, wait_state::under_way);
  EXPECT_EQ(report.waits[0].message, id);
}

TEST(Blocked, WhatALaterMessageHasOvertakenIsLostHoweverYoung) {
  stuck_run r(1, 1);
  r.spread();
  r.gradient(r.trainer(0), r.server(0), 11, trace::ms(900), 1);
  r.frame(trace::kind::sent, {.from = r.trainer(0),
                              .to = r.server(0),
                              .type = "gradient",
                              .step = 12,
                              .sent = trace::ms(1000),
                              .sequence = 2});
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(1001), 3);
  EXPECT_EQ(r.now(trace::ms(1002)).verdict,
            "trainer 0 #2 (gradient, step 12) was sent by trainer 0 2.0 ms ago, and never arrived at server 0");
}

TEST(Blocked, WhereAllWereKilledNobodyDiedFirst) {
  stuck_run r(1, 1);
  r.spread();
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 5);
  r.frame(trace::kind::sent,
          {.from = r.trainer(0), .to = r.server(0), .type = "lookup", .sent = trace::ms(1000), .sequence = 5});
  for (trace::process_info& one : r.edit().processes) one.alive = false;
  EXPECT_EQ(r.now(trace::ms(1500)).what, blockage::never_arrived);
  r.edit().processes[0].alive = true;
  EXPECT_EQ(r.now(trace::ms(1500)).what, blockage::dead);
}

TEST(Blocked, ARequestThatWasSentAndNeverArrivedIsNamed) {
  stuck_run r(2, 1);
  r.spread();
  r.ask(r.trainer(0), r.server(1), "lookup", 3, trace::ms(1000), 417);
  r.frame(
      trace::kind::sent,
      {.from = r.trainer(0), .to = r.server(1), .type = "lookup", .step = 3, .sent = trace::ms(1000), .sequence = 417});
  const auto report = r.now(trace::ms(4200));
  EXPECT_EQ(report.what, blockage::never_arrived);
  EXPECT_EQ(report.verdict,
            "trainer 0 #417 (lookup, step 3) was sent by trainer 0 3.20 s ago, and never arrived at server 1");
  EXPECT_EQ(report.root, r.trainer(0));
}

TEST(Blocked, AReceiverThatHangsIsToldFromALoss) {
  stuck_run r(1, 1);
  r.spread();
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 4);
  r.frame(
      trace::kind::sent,
      {.from = r.trainer(0), .to = r.server(0), .type = "lookup", .step = 3, .sent = trace::ms(1000), .sequence = 4});
  r.edit().processes[1].last = trace::ms(990);
  r.edit().processes[0].last = trace::ms(3000);
  EXPECT_EQ(
      find_blocked(r.done()).verdict,
      "trainer 0 #4 (lookup, step 3) was sent by trainer 0 2.00 s ago, and never arrived at server 0, whose process "
      "has recorded nothing since then");
}

TEST(Blocked, AnAnswerThatNeverArrivedIsNamed) {
  stuck_run r(1, 1);
  r.spread();
  const auto asked = r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 4);
  r.handled({.from = r.trainer(0),
             .to = r.server(0),
             .type = "lookup",
             .step = 3,
             .sent = trace::ms(1000),
             .arrived = trace::ms(1001),
             .begin = trace::ms(1001),
             .end = trace::ms(1002),
             .flags = flag::request | flag::remote,
             .sequence = 4});
  r.frame(trace::kind::sent, {.from = r.server(0),
                              .to = r.trainer(0),
                              .type = "rows",
                              .step = 3,
                              .cause = asked,
                              .sent = trace::ms(1002),
                              .flags = flag::answer,
                              .sequence = 99});
  const auto report = r.now(trace::ms(3002));
  EXPECT_EQ(report.verdict,
            "server 0 #99 (rows, step 3) was sent by server 0 2.00 s ago, and never arrived at trainer 0");
}

TEST(Blocked, ADroppedGradientIsNamedByItsRecordOfHavingBeenSent) {
  stuck_run r(2, 2);
  r.spread();
  for (std::uint16_t s : {0, 1})
    for (std::uint16_t t : {0, 1}) {
      r.gradient(r.trainer(t), r.server(s), 11, trace::ms(100 + s), 400 + s);
      if (s == 0 || t == 0) r.gradient(r.trainer(t), r.server(s), 12, trace::ms(200 + s), 410 + s);
    }
  r.frame(trace::kind::sent, {.from = r.trainer(1),
                              .to = r.server(1),
                              .type = "gradient",
                              .step = 12,
                              .sent = trace::ms(201),
                              .sequence = 411});
  for (std::uint16_t t : {0, 1}) r.ask_parked(r.trainer(t), r.server(1), "lookup", 13, trace::ms(202), 412);
  const auto report = r.now(trace::ms(1201));
  EXPECT_EQ(report.what, blockage::never_arrived);
  EXPECT_EQ(report.verdict,
            "trainer 1 #411 (gradient, step 12) was sent by trainer 1 1.00 s ago, and never arrived at server 1");
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.server(1), wait_state::parked));
  EXPECT_TRUE(has_wait(report, r.server(1), r.trainer(1), wait_state::never_arrived));
  EXPECT_FALSE(has_wait(report, r.server(1), r.trainer(0), wait_state::unsent));
}

TEST(Blocked, ADroppedGradientIsFoundByTheGapInItsSendersNumbers) {
  stuck_run r(2, 2);
  // Trainer 1 has sent 1: lookup, 2 and 3: gradients, 4 and 5: lookups of the next step. Number 3 has left no trace.
  for (std::uint16_t t : {0, 1}) {
    r.gradient(r.trainer(t), r.server(0), 12, trace::ms(200), 2);
    if (t == 0) r.gradient(r.trainer(t), r.server(1), 12, trace::ms(201), 3);
    r.handled({.from = r.trainer(t), .to = r.server(0), .type = "lookup", .step = 12, .sequence = 1});
    r.ask_parked(r.trainer(t), r.server(1), "lookup", 13, trace::ms(202), 5);
    r.ask(r.trainer(t), r.server(0), "lookup", 13, trace::ms(202), 4);
    r.handled({.from = r.trainer(t),
               .to = r.server(0),
               .type = "lookup",
               .step = 13,
               .sent = trace::ms(202),
               .arrived = trace::ms(202),
               .begin = trace::ms(202),
               .end = trace::ms(203),
               .flags = flag::request | flag::parked,
               .sequence = 4});
  }
  const auto report = r.now(trace::ms(1202));
  EXPECT_EQ(report.what, blockage::never_arrived);
  EXPECT_EQ(report.verdict, "trainer 1 #3 (gradient, step 12) was sent by trainer 1, and never arrived at server 1");
}

TEST(Blocked, AFilteredRecordingProvesNoLoss) {
  stuck_run r(1, 1);
  r.edit().processes[0].dropped = 10;
  r.edit().processes[0].filtered = true;
  r.handled({.from = r.trainer(0), .to = r.server(0), .type = "gradient", .step = 11, .sequence = 1});
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(202), 5);
  const auto report = r.now(trace::ms(1202));
  EXPECT_EQ(report.what, blockage::cycle);
  EXPECT_TRUE(
      std::ranges::any_of(report.details, [](const std::string& line) { return line.starts_with("a filter"); }));
}

TEST(Blocked, ALongHandlerIsTheRootOfAllWhoWaitForIt) {
  stuck_run r(1, 2);
  r.gradient(r.trainer(0), r.server(0), 12, trace::ms(200), 2);
  r.gradient(r.trainer(1), r.server(0), 11, trace::ms(100), 2);
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(201), 3);
  r.at_work(r.trainer(1), "rows", 12, trace::ms(150), trace::made_id(r.server(0), 7));
  const auto report = r.now(trace::ms(3350));
  EXPECT_EQ(report.what, blockage::handler_running);
  EXPECT_EQ(report.verdict, "trainer 1: handler running for 3.20 s (rows, step 12); 2 actors waiting");
  EXPECT_EQ(report.root, r.trainer(1));
  EXPECT_EQ(to_text(r.done(), report),
            report.verdict +
                "\n\n"
                "  who        waits for                      from          for  state\n"
                "  trainer 0  answer to lookup #3 (step 13)  server 0   3.15 s  parked: to be answered later\n"
                "  server 0   gradient of step 12            trainer 1  3.15 s  not sent\n\n"
                "trainer 1: handler running for 3.20 s (rows, step 12)\n");
}

TEST(Blocked, AMessageBehindManyIsQueued) {
  stuck_run r(1, 2);
  r.spread();
  for (std::uint64_t i = 1; i <= 5; ++i)
    r.frame(trace::kind::arrived, {.from = r.trainer(1),
                                   .to = r.server(0),
                                   .type = "lookup",
                                   .arrived = trace::ms(100 + static_cast<std::int64_t>(i)),
                                   .sequence = i});
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(200), 9);
  r.frame(trace::kind::arrived,
          {.from = r.trainer(0), .to = r.server(0), .type = "lookup", .arrived = trace::ms(201), .sequence = 9});
  r.at_work(r.server(0), "lookup", 3, trace::ms(690), trace::made_id(r.trainer(1), 1));
  const auto report = r.now(trace::ms(700));
  EXPECT_EQ(report.what, blockage::queued);
  EXPECT_EQ(report.verdict,
            "answer to lookup #9 (step 3) has arrived at server 0, queued behind 4 messages for 500.0 ms");
  r.actor(r.server(0)).message_begin = trace::ms(300);
  EXPECT_EQ(r.now(trace::ms(700)).what, blockage::handler_running);
}

TEST(Blocked, ExhaustedCreditsAreNamed) {
  stuck_run r(1, 1);
  r.spread();
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 9);
  r.mark(trace::kind::credit_wait, r.trainer(0), trace::ms(1000), 1, trace::made_id(r.trainer(0), 9));
  const auto report = r.now(trace::ms(4000));
  EXPECT_EQ(report.what, blockage::credits_exhausted);
  EXPECT_EQ(
      report.verdict,
      "credits exhausted: trainer 0 #9 (lookup, step 3) of trainer 0 waits for credit from the process of server 0");
  r.mark(trace::kind::credit, r.trainer(0), trace::ms(1001), 1);
  EXPECT_EQ(r.now(trace::ms(4000)).what, blockage::never_arrived);
}

TEST(Blocked, AGradientThatWaitsForCreditIsNotLost) {
  stuck_run r(1, 1);
  r.spread();
  r.gradient(r.trainer(0), r.server(0), 11, trace::ms(900), 1);
  // Recorded as sent when it was handed over; then held back, and behind it a lookup of which no such thing is known.
  r.frame(trace::kind::sent, {.from = r.trainer(0),
                              .to = r.server(0),
                              .type = "gradient",
                              .step = 12,
                              .sent = trace::ms(1000),
                              .sequence = 2});
  trace::event held;
  held.what = trace::kind::credit_wait;
  held.actor = r.trainer(0);
  held.aux = 1;
  held.id = trace::made_id(r.trainer(0), 2);
  held.step = 12;
  held.begin = held.end = trace::ms(1000);
  r.add(held);
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(1001), 3);
  const auto report = r.now(trace::ms(4000));
  EXPECT_EQ(report.what, blockage::credits_exhausted);
  EXPECT_EQ(report.verdict,
            "credits exhausted: trainer 0 #2 (gradient, step 12) of trainer 0 waits for credit from the "
            "process of server 0");
}

// Ranks 0 and 1 are in step 12; rank 2 has left its collective out and is in step 13, which the others have not come
// to. The group may have met that one first.
TEST(Blocked, ASkippedCollectiveNamesCommunicatorNumberAndRank) {
  for (const auto& [of_12, of_13] : {std::pair<std::uint64_t, std::uint64_t>{33, 34}, {34, 33}}) {
    stuck_run r(1, 3);
    for (std::uint16_t t : {0, 1, 2}) {
      r.gradient(r.trainer(t), r.server(0), 12, trace::ms(100), 1);
      r.actor(r.trainer(t)).step = 12;
    }
    r.launch(0, of_12, 12, r.ask_parked(r.trainer(0), r.group, "reduce", 12, trace::ms(110), 2), trace::ms(110));
    r.launch(1, of_12, 12, r.ask_parked(r.trainer(1), r.group, "reduce", 12, trace::ms(111), 2), trace::ms(111));
    r.actor(r.trainer(2)).step = 13;
    r.gradient(r.trainer(2), r.server(0), 13, trace::ms(120), 2);
    r.launch(2, of_13, 13, r.ask_parked(r.trainer(2), r.group, "reduce", 13, trace::ms(121), 4), trace::ms(121));
    r.ask_parked(r.trainer(2), r.server(0), "lookup", 14, trace::ms(121), 3);
    const auto report = r.now(trace::ms(2000));
    EXPECT_EQ(report.what, blockage::ranks_missing);
    EXPECT_EQ(report.verdict, "communicator 0, collective " + std::to_string(of_12) +
                                  " (step 12, bucket 0): ranks {2} missing while all processes live");
    EXPECT_EQ(report.root, r.trainer(2));
    EXPECT_TRUE(has_wait(report, r.trainer(0), r.trainer(2), wait_state::unsent));
  }
}

TEST(Blocked, ARankThatDoesNothingIsMissing) {
  stuck_run r(1, 2);
  r.launch(0, 7, 3, r.ask_parked(r.trainer(0), r.group, "reduce", 3, trace::ms(110), 2, 1), trace::ms(110));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.verdict,
            "communicator 0, collective 7 (step 3, bucket 1): ranks {1} missing while all processes live");
  EXPECT_EQ(to_json(r.done(), report).at("waits").at(0).at("missing_ranks"), boost::json::array{1});
}

TEST(Blocked, LaunchedByAllAndCompletedByNone) {
  stuck_run r(1, 2);
  for (std::uint16_t t : {0, 1})
    r.launch(t, 33, 12, r.ask_parked(r.trainer(t), r.group, "reduce", 12, trace::ms(110), 2), trace::ms(110));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::incomplete);
  EXPECT_EQ(
      report.verdict,
      "communicator 0, collective 33 (step 12, bucket 0): launched by all, completed by none: network or device, not "
      "code");
}

TEST(Blocked, AShareThatIsLostBetweenGroupsNeverArrived) {
  stuck_run r(1, 2);
  r.spread();
  r.actor(0x8001, "allreduce 1", 1);
  r.actor(0x8002, "allreduce 2", 2);
  r.actor(r.trainer(0)).process = 1;
  r.launch(0, 5, 12, r.ask_parked(r.trainer(0), 0x8001, "reduce", 12, trace::ms(110), 2), trace::ms(110), 0x8001);
  r.launch(1, 5, 12, r.ask_parked(r.trainer(1), 0x8002, "reduce", 12, trace::ms(110), 2), trace::ms(110), 0x8002);
  r.launch(0, 5, 12, trace::made_id(0x8001, 9), trace::ms(112), 0x8002);
  r.frame(trace::kind::sent,
          {.from = 0x8002, .to = 0x8001, .type = "bucket_share", .step = 12, .sent = trace::ms(111), .sequence = 8});
  const auto report = r.now(trace::ms(2111));
  EXPECT_EQ(
      report.verdict,
      "allreduce 2 #8 (bucket_share, step 12) was sent by allreduce 2 2.00 s ago, and never arrived at allreduce 1");
}

TEST(Blocked, TwoActorsThatWaitForEachOtherAreACycle) {
  stuck_run r(1, 2);
  r.ask(r.trainer(0), r.trainer(1), "ping", 0, trace::ms(10), 1);
  r.ask(r.trainer(1), r.trainer(0), "pong", 0, trace::ms(11), 1);
  r.ask(r.master, r.trainer(1), "train", 0, trace::ms(1), 1);
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::cycle);
  EXPECT_EQ(
      report.verdict,
      "cycle of 2: trainer 0 waits for trainer 1 (answer to ping #1), trainer 1 waits for trainer 0 (answer to pong "
      "#1)");
  EXPECT_EQ(report.cycle, (std::vector<std::uint16_t>{r.trainer(0), r.trainer(1)}));
}

TEST(Blocked, HandlersThatWaitForEachOtherAreACycleToo) {
  stuck_run r(1, 2);
  r.at_work(r.trainer(0), "go", 0, trace::ms(5), trace::made_id(r.master, 1));
  r.at_work(r.trainer(1), "go", 0, trace::ms(5), trace::made_id(r.master, 2));
  r.ask(r.trainer(0), r.trainer(1), "ping", 0, trace::ms(10), 1);
  EXPECT_EQ(r.now(trace::ms(2000)).what, blockage::none) << "nobody who is not at work waits";
  r.ask(r.trainer(1), r.trainer(0), "pong", 0, trace::ms(11), 1);
  EXPECT_EQ(r.now(trace::ms(2000)).what, blockage::cycle);
}

TEST(Blocked, AChainLeadsToTheDeadProcess) {
  stuck_run r(1, 3);
  r.spread();
  r.edit().realtime_begin_ns = 1'700'000'000'000'000'000;  // 22:13:20 UTC
  r.actor(r.trainer(2)).process = 3;
  r.edit().processes.resize(4);
  r.edit().processes[3].pid = 123;
  r.edit().processes[3].node = 3;
  // trainer 0 waits for server 0, which waits for trainer 1, which waits for trainer 2, which is dead.
  r.gradient(r.trainer(2), r.server(0), 12, trace::ms(4500), 1);
  r.edit().processes[3].last = trace::ms(4500);
  r.gradient(r.trainer(0), r.server(0), 12, trace::ms(4501), 1);
  r.gradient(r.trainer(1), r.server(0), 11, trace::ms(4000), 1);
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(4502), 2);
  r.ask(r.trainer(1), r.trainer(2), "share", 12, trace::ms(4503), 2);
  r.mark(trace::kind::link_down, 0xfffe, trace::ms(4600), 3);
  r.edit().processes[0].last = r.edit().processes[1].last = r.edit().processes[2].last = trace::ms(9000);
  const auto report = find_blocked(r.done());
  EXPECT_EQ(report.what, blockage::dead);
  EXPECT_EQ(report.verdict, "trainer 2 (pid 123) has been dead since 22:13:24.5 UTC");
  EXPECT_EQ(report.root, r.trainer(2));
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.server(0), wait_state::parked));
  EXPECT_TRUE(has_wait(report, r.server(0), r.trainer(1), wait_state::unsent));
}

TEST(Blocked, AKilledProcessIsNamedThoughAllOthersHaveFailedSince) {
  stuck_run r(2, 1);
  r.spread();
  for (trace::process_info& one : r.edit().processes) one.end = trace::ending::failed;
  r.edit().processes[1].end = trace::ending::none;
  r.edit().processes[1].last = trace::ms(100);
  r.mark(trace::kind::exit, r.trainer(0), trace::ms(180), 9);
  r.edit().processes[0].last = r.edit().processes[2].last = trace::ms(200);
  const auto report = find_blocked(r.done());
  EXPECT_EQ(report.verdict, "server 0, server 1 (pid 101) has been dead since 00:00:00.1 UTC");
}

TEST(Blocked, AnActorThatEndedByAnErrorIsNamed) {
  stuck_run r(1, 1);
  r.spread();
  r.mark(trace::kind::exit, r.server(0), trace::ms(180), 6);
  r.actor(r.server(0)).alive = false;
  const auto report = r.now(trace::ms(500));
  EXPECT_EQ(report.verdict, "server 0 (pid 101) has been dead since 00:00:00.1 UTC: it ended with error 6");
}

TEST(Blocked, StalenessDecidesWhichGradientsALookupWaitsFor) {
  stuck_run r(1, 2);
  r.edit().processes[0].metadata["job"] = boost::json::object{{"consistency", "ssp:2"}};
  r.gradient(r.trainer(0), r.server(0), 9, trace::ms(90), 1);
  r.gradient(r.trainer(1), r.server(0), 12, trace::ms(95), 1);
  r.ask_parked(r.trainer(1), r.server(0), "lookup", 13, trace::ms(100), 2);
  const auto report = r.now(trace::ms(500));
  EXPECT_TRUE(has_wait(report, r.server(0), r.trainer(0), wait_state::unsent));
  EXPECT_EQ(report.verdict, "trainer 0 owes server 0 gradient of step 10, waits for nobody and does nothing");
}

TEST(Blocked, JsonHasStableNames) {
  stuck_run r(1, 2);
  r.ask(r.trainer(0), r.trainer(1), "ping", 4, trace::ms(10), 1);
  const auto json = to_json(r.edit(), r.now(trace::ms(20)));
  EXPECT_EQ(json.at("class"), "idle");
  EXPECT_EQ(json.at("root"), "trainer 1");
  const auto& edge = json.at("waits").at(0).as_object();
  EXPECT_EQ(edge.at("who"), "trainer 0");
  EXPECT_EQ(edge.at("on"), "trainer 1");
  EXPECT_EQ(edge.at("for"), "answer to ping #1 (step 4)");
  EXPECT_EQ(edge.at("state"), "queued");
  EXPECT_EQ(edge.at("message"), "trainer 0 #1");
  EXPECT_EQ(edge.at("waiting_ns"), trace::ms(10));
}

}  // namespace troupe::analysis::blocked_test
