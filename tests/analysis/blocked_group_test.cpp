// Collectives that lack a rank, cycles, and chains that lead to a dead process.

#include "trace/analysis/blocked.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tests/analysis/stuck_run.hpp"

namespace troupe::analysis::blocked_test {

// Ranks 0 and 1 are in step 12; rank 2 has skipped its collective and is in step 13, which the others have not reached.
// The group may have numbered either collective first.
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
  r.frame(trace::kind::sent, "bucket_share", 0x8002, 0x8001, trace::ms(111), {.step = 12, .sequence = 8});
  const auto report = r.now(trace::ms(2111));
  EXPECT_EQ(
      report.verdict,
      "allreduce 2 #8 (bucket_share, step 12) was sent by allreduce 2 2.00 s ago, and never arrived at allreduce 1");
}

/// Group 0 gathers the shares: it does not matter that other groups lack them.
TEST(Blocked, ARankThatTheGatheringGroupLacksIsMissing) {
  stuck_run r(1, 3);
  r.spread();
  for (std::uint16_t i = 0; i < 3; ++i) r.actor(0x8000 + i, "allreduce " + std::to_string(i), i);
  for (std::uint16_t i = 0; i < 2; ++i) {
    r.actor(r.trainer(i)).process = i;
    const auto asked = r.ask_parked(r.trainer(i), 0x8000 + i, "reduce", 12, trace::ms(110), 2);
    r.launch(i, 5, 12, asked, trace::ms(110), 0x8000 + i, 0x8000);
  }
  r.launch(1, 5, 12, trace::made_id(0x8001, 9), trace::ms(112), 0x8000, 0x8000);
  EXPECT_EQ(r.now(trace::ms(2111)).verdict,
            "communicator 0, collective 5 (step 12, bucket 0): ranks {2} missing while all processes live");
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
  EXPECT_EQ(r.now(trace::ms(2000)).what, blockage::none) << "only actors at work wait";
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
  // Trainer 0 waits for server 0, which waits for trainer 1, which waits for trainer 2, which is dead.
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

/// Server 0 only noticed what trainer 0 did.
TEST(Blocked, TheErrorOfTheRunIsToldInPlaceOfWhoEndedByIt) {
  stuck_run r(1, 1);
  r.spread();
  r.mark(trace::kind::exit, r.server(0), trace::ms(180), 1);
  r.actor(r.server(0)).alive = false;
  r.edit().processes[0].metadata["error"] = "server 0, step 7: trainer 0 has returned after step 6";
  const auto report = r.now(trace::ms(500));
  EXPECT_EQ(report.what, blockage::dead);
  EXPECT_EQ(report.verdict, "the run has ended with an error: server 0, step 7: trainer 0 has returned after step 6");
  EXPECT_EQ(report.root, std::nullopt);
}

TEST(Blocked, StalenessDecidesWhichGradientsALookupWaitsFor) {
  stuck_run r(1, 2);
  r.edit().processes[0].metadata["job"] = boost::json::object{{"consistency", "ssp:2"}};
  r.gradient(r.trainer(0), r.server(0), 9, trace::ms(90), 1);
  r.gradient(r.trainer(1), r.server(0), 12, trace::ms(95), 1);
  r.ask_parked(r.trainer(1), r.server(0), "lookup", 13, trace::ms(100), 2);
  const auto report = r.now(trace::ms(500));
  EXPECT_TRUE(has_wait(report, r.server(0), r.trainer(0), wait_state::unsent));
  EXPECT_EQ(report.verdict, "trainer 0 owes server 0 gradient of step 10, waits for nothing and does nothing");
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
