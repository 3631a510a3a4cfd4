#include "trace/analysis/blocked.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tests/analysis/stuck_run.hpp"

namespace troupe::analysis::blocked_test {

TEST(Blocked, ACleanEndIsNotBlocked) {
  stuck_run r(1, 1);
  r.edit().processes[0].end = trace::ending::clean;
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1), 5);
  r.mark(trace::kind::exit, r.trainer(0), trace::ms(2), 9);  // it ends as requested
  const auto report = find_blocked(r.done());
  EXPECT_EQ(report.what, blockage::none);
  EXPECT_EQ(report.verdict, "nothing is blocked: the run has ended as it should");
  EXPECT_TRUE(report.waits.empty());
}

TEST(Blocked, NothingIsToldOfARunWhoseMetadataCannotBeRead) {
  stuck_run r(1, 1);
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1), 5);
  r.edit().processes[0].files = {"h-1.ring"};
  r.edit().processes[0].metadata_fault = "are damaged";
  const auto report = find_blocked(r.done());
  EXPECT_EQ(report.what, blockage::none);
  EXPECT_EQ(report.verdict, "it is unknown whether the run is blocked: h-1.ring: its metadata are damaged");
  EXPECT_TRUE(report.waits.empty());
}

TEST(Blocked, WhatHasJustBeenSentIsUnderWay) {
  stuck_run r(1, 1);
  r.spread();
  const auto id = r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 5);
  r.frame(trace::kind::sent, "lookup", r.trainer(0), r.server(0), trace::ms(1000), {.sequence = 5});
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
  r.frame(trace::kind::sent, "gradient", r.trainer(0), r.server(0), trace::ms(1000), {.step = 12, .sequence = 2});
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(1001), 3);
  EXPECT_EQ(r.now(trace::ms(1002)).verdict,
            "trainer 0 #2 (gradient, step 12) was sent by trainer 0 2.0 ms ago, and never arrived at server 0");
}

TEST(Blocked, WhereAllWereKilledNobodyDiedFirst) {
  stuck_run r(1, 1);
  r.spread();
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(1000), 5);
  r.frame(trace::kind::sent, "lookup", r.trainer(0), r.server(0), trace::ms(1000), {.sequence = 5});
  for (trace::process_info& one : r.edit().processes) one.alive = false;
  EXPECT_EQ(r.now(trace::ms(1500)).what, blockage::never_arrived);
  r.edit().processes[0].alive = true;
  EXPECT_EQ(r.now(trace::ms(1500)).what, blockage::dead);
}

TEST(Blocked, ARequestThatWasSentAndNeverArrivedIsNamed) {
  stuck_run r(2, 1);
  r.spread();
  r.ask(r.trainer(0), r.server(1), "lookup", 3, trace::ms(1000), 417);
  r.frame(trace::kind::sent, "lookup", r.trainer(0), r.server(1), trace::ms(1000), {.step = 3, .sequence = 417});
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
  r.frame(trace::kind::sent, "lookup", r.trainer(0), r.server(0), trace::ms(1000), {.step = 3, .sequence = 4});
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
  r.handled("lookup", r.trainer(0), r.server(0), trace::ms(1000, 1001, 1001, 1002),
            {.step = 3, .flags = flag::request | flag::remote, .sequence = 4});
  r.frame(trace::kind::sent, "rows", r.server(0), r.trainer(0), trace::ms(1002),
          {.step = 3, .cause = asked, .flags = flag::answer, .sequence = 99});
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
  r.frame(trace::kind::sent, "gradient", r.trainer(1), r.server(1), trace::ms(201), {.step = 12, .sequence = 411});
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
  // Trainer 1 has sent 1: lookup, 2 and 3: gradients, 4 and 5: lookups of the next step. Number 3 left no trace.
  for (std::uint16_t t : {0, 1}) {
    r.gradient(r.trainer(t), r.server(0), 12, trace::ms(200), 2);
    if (t == 0) r.gradient(r.trainer(t), r.server(1), 12, trace::ms(201), 3);
    r.handled("lookup", r.trainer(t), r.server(0), {}, {.step = 12, .sequence = 1});
    r.ask_parked(r.trainer(t), r.server(1), "lookup", 13, trace::ms(202), 5);
    r.ask(r.trainer(t), r.server(0), "lookup", 13, trace::ms(202), 4);
    r.handled("lookup", r.trainer(t), r.server(0), trace::ms(202, 202, 202, 203),
              {.step = 13, .flags = flag::request | flag::parked, .sequence = 4});
  }
  const auto report = r.now(trace::ms(1202));
  EXPECT_EQ(report.what, blockage::never_arrived);
  EXPECT_EQ(report.verdict, "trainer 1 #3 (gradient, step 12) was sent by trainer 1, and never arrived at server 1");
}

TEST(Blocked, AFilteredRecordingProvesNoLoss) {
  stuck_run r(1, 1);
  r.edit().processes[0].dropped = 10;
  r.edit().processes[0].filtered = true;
  r.handled("gradient", r.trainer(0), r.server(0), {}, {.step = 11, .sequence = 1});
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

/// In a user's program, a trainer's handler runs the user's own code, so no message type names it.
TEST(Blocked, ATrainerOfAProgramIsInItsOwnFunction) {
  stuck_run r(1, 2);
  r.edit().processes[0].metadata["program"] = "two_towers";
  r.gradient(r.trainer(0), r.server(0), 12, trace::ms(200), 2);
  r.gradient(r.trainer(1), r.server(0), 11, trace::ms(100), 2);
  r.ask_parked(r.trainer(0), r.server(0), "lookup", 13, trace::ms(201), 3);
  r.at_work(r.trainer(1), "reduced", 12, trace::ms(150), trace::made_id(r.server(0), 7));
  EXPECT_EQ(r.now(trace::ms(3350)).verdict,
            "trainer 1: in its own function or loop for 3.20 s (after reduced, step 12); 2 actors waiting");
}

TEST(Blocked, AMessageBehindManyIsQueued) {
  stuck_run r(1, 2);
  r.spread();
  for (std::uint64_t i = 1; i <= 5; ++i)
    r.frame(trace::kind::arrived, "lookup", r.trainer(1), r.server(0), trace::ms(100 + static_cast<std::int64_t>(i)),
            {.sequence = i});
  r.ask(r.trainer(0), r.server(0), "lookup", 3, trace::ms(200), 9);
  r.frame(trace::kind::arrived, "lookup", r.trainer(0), r.server(0), trace::ms(201), {.sequence = 9});
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
  // Recorded as sent when it was queued, then held back for lack of credit; the state of the lookup behind it is
  // unknown.
  r.frame(trace::kind::sent, "gradient", r.trainer(0), r.server(0), trace::ms(1000), {.step = 12, .sequence = 2});
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

}  // namespace troupe::analysis::blocked_test
