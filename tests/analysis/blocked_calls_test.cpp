// Calls between trainers: collectives, and sent and received tensors. Only the trainer that has not made the call that
// the others wait for is named.

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <string>

#include "tests/analysis/stuck_run.hpp"
#include "trace/analysis/blocked.hpp"

namespace troupe::analysis::blocked_calls_test {

/// As in every run, the master waits for all trainers.
void train(stuck_run& r, std::uint16_t trainers) {
  for (std::uint16_t i = 0; i < trainers; ++i)
    r.ask(r.master, r.trainer(i), "train", 0, trace::ms(1), std::uint64_t{10} + i);
}

// Trainer 1 has skipped one all_reduce, and waits for the others in the following optimizer step.
TEST(BlockedCalls, ASkippedCollectiveNamesWhoHasNotCalledItAndWhereThatIs) {
  stuck_run r(1, 3);
  train(r, 3);
  for (std::uint16_t t : {0, 2}) r.call(t, {.number = 26, .at_step = 501, .since = trace::ms(100), .missing = {1}});
  const auto asked = r.ask_parked(r.trainer(1), r.group, "reduce", 502, trace::ms(110), 2);
  r.launch(1, 502, 502, asked, trace::ms(110));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::ranks_missing);
  EXPECT_EQ(report.verdict,
            "all_reduce #26 of trainers 0..2 (step 501): trainer 1 has not called it; it is at optimizer.step of step "
            "502");
  EXPECT_EQ(report.root, r.trainer(1));
  EXPECT_TRUE(has_wait(report, r.trainer(0), r.trainer(1), wait_state::unsent));
  const auto json = to_json(r.done(), report);
  EXPECT_EQ(json.at("class"), "ranks_missing");
  const auto& wait = json.at("waits").at(1).as_object();
  EXPECT_TRUE(std::ranges::any_of(json.at("waits").as_array(), [](const auto& one) {
    return one.at("for") == "all_reduce #26 of trainers 0..2 (step 501)" && one.at("state_text") == "not called" &&
           one.as_object().contains("missing_ranks");
  })) << boost::json::value(wait);
}

// The opposite case: trainer 1 makes a call that the others, which are in the optimizer step, do not make.
TEST(BlockedCalls, ACollectiveThatOneTrainerCallsTooManyNamesThatTrainer) {
  stuck_run r(1, 3);
  train(r, 3);
  r.call(1, {.number = 26, .at_step = 501, .since = trace::ms(100), .missing = {0, 2}});
  for (std::uint16_t t : {0, 2})
    r.launch(t, 7, 501, r.ask_parked(r.trainer(t), r.group, "reduce", 501, trace::ms(110), 2), trace::ms(110));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.verdict,
            "communicator 0, collective 7 (step 501, bucket 0): ranks {1} missing while all processes live");
  EXPECT_EQ(report.root, r.trainer(1));
}

/// Trainers 0 and 2 wait in the optimizer step for trainer 1.
void step_without_trainer_1(stuck_run& r, std::uint64_t step) {
  for (std::uint16_t t : {0, 2})
    r.launch(t, step, step, r.ask_parked(r.trainer(t), r.group, "reduce", step, trace::ms(110), 2), trace::ms(110));
}

// The receive comes after the optimizer step of that iteration, or before it.
TEST(BlockedCalls, AReceiptIsNamedThoughTheOthersAreInTheOptimizerStep) {
  for (const std::uint64_t step : {302, 301}) {
    stuck_run r(1, 3);
    train(r, 3);
    r.receive(1, 0, 5, 301, trace::ms(100));
    step_without_trainer_1(r, step);
    const auto report = r.now(trace::ms(2000));
    EXPECT_EQ(report.what, blockage::ranks_missing);
    EXPECT_EQ(report.verdict,
              "recv with tag 5 of trainer 1 from trainer 0 (step 301): trainer 0 has not sent it; it is at "
              "optimizer.step of step " +
                  std::to_string(step));
    EXPECT_EQ(report.root, r.trainer(0));
  }
}

// Trainer 1 works without having awaited its call; the others were in that call with it.
TEST(BlockedCalls, ACallThatIsNotAwaitedHoldsUpNoHandler) {
  stuck_run r(1, 3);
  train(r, 3);
  r.at_work(r.trainer(1), "collective_share", 301, trace::ms(90), trace::made_id(r.trainer(0), 7));
  r.call(1, {.number = 4, .at_step = 301, .since = trace::ms(100), .missing = {0, 2}});
  step_without_trainer_1(r, 302);
  const auto report = r.now(trace::ms(2090));
  EXPECT_EQ(report.what, blockage::handler_running);
  EXPECT_TRUE(report.verdict.starts_with("trainer 1: handler running for 2.00 s (collective_share, step 301)"))
      << report.verdict;
}

TEST(BlockedCalls, AReceiptAmongCollectivesNamesWhoReceives) {
  stuck_run r(1, 3);
  train(r, 3);
  for (std::uint16_t t : {0, 1}) r.call(t, {.number = 4, .at_step = 9, .since = trace::ms(100), .missing = {2}});
  r.receive(2, 0, 5, 9, trace::ms(90));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(
      report.verdict,
      "all_reduce #4 of trainers 0..2 (step 9): trainer 2 has not called it; it is in recv with tag 5 of trainer 2 "
      "from trainer 0 (step 9)");
  EXPECT_EQ(report.root, r.trainer(2));
}

TEST(BlockedCalls, ASenderThatDoesNotSendIsNamed) {
  stuck_run r(1, 2);
  train(r, 2);
  r.receive(0, 1, 7, 3, trace::ms(100));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::ranks_missing);
  EXPECT_EQ(
      report.verdict,
      "recv with tag 7 of trainer 0 from trainer 1 (step 3): trainer 1 has not sent it; it waits for nothing that "
      "is recorded");
}

// Two trainers, each in a call that the other has not made: neither is known to be wrong.
TEST(BlockedCalls, TwoThatReceiveFromEachOtherAreACycle) {
  stuck_run r(1, 2);
  train(r, 2);
  r.receive(0, 1, 0, 3, trace::ms(100));
  r.receive(1, 0, 0, 3, trace::ms(100));
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::cycle);
  EXPECT_EQ(
      report.verdict,
      "cycle of 2: trainer 0 waits for trainer 1 (recv with tag 0 of trainer 0 from trainer 1 (step 3)), trainer 1 "
      "waits for trainer 0 (recv with tag 0 of trainer 1 from trainer 0 (step 3))");
}

TEST(BlockedCalls, GroupsOfTheSameMembersAreToldApart) {
  stuck_run r(1, 3);
  train(r, 3);
  // Trainer 0 is in the second subgroup of {0, 2}, trainer 2 in the first; trainer 1 is not involved.
  r.call(0,
         {.number = 3, .since = trace::ms(100), .members = {0, 2}, .missing = {2}, .text = "barrier", .instance = 2});
  r.call(2,
         {.number = 3, .since = trace::ms(100), .members = {0, 2}, .missing = {0}, .text = "barrier", .instance = 1});
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::cycle);
  EXPECT_NE(report.verdict.find("barrier #3 of trainers 0, 2 in their group 2"), std::string::npos) << report.verdict;
  EXPECT_EQ(report.verdict.find("trainer 1"), std::string::npos) << report.verdict;
}

TEST(BlockedCalls, SeveralThatHaveNotCalledAreAllNamed) {
  stuck_run r(1, 4);
  train(r, 4);
  r.call(3, {.number = 2, .since = trace::ms(100), .members = {0, 1, 2, 3}, .missing = {0, 1, 2}, .text = "barrier"});
  const auto report = r.now(trace::ms(2000));
  EXPECT_TRUE(report.verdict.starts_with("barrier #2 of trainers 0..3: trainers 0..2 have not called it; trainer 0 "))
      << report.verdict;
}

TEST(BlockedCalls, ATrainerInItsOwnFunctionIsNamedWithHowLong) {
  stuck_run r(1, 3);
  train(r, 3);
  for (std::uint16_t t : {0, 2}) r.call(t, {.number = 26, .at_step = 501, .since = trace::ms(100), .missing = {1}});
  r.at_work(r.trainer(1), "collective_share", 501, trace::ms(90), trace::made_id(r.trainer(0), 7));
  const auto report = r.now(trace::ms(3290));
  EXPECT_EQ(report.what, blockage::handler_running);
  EXPECT_EQ(
      report.verdict,
      "all_reduce #26 of trainers 0..2 (step 501): trainer 1 has not called it; it is at work: handler running for "
      "3.20 s (collective_share, step 501)");
}

TEST(BlockedCalls, AServerThatTheMissingTrainerWaitsForIsTheRoot) {
  stuck_run r(1, 2);
  train(r, 2);
  r.call(0, {.number = 2, .at_step = 5, .since = trace::ms(100), .members = {0, 1}, .missing = {1}});
  r.at_work(r.server(0), "lookup", 5, trace::ms(100), r.ask(r.trainer(1), r.server(0), "lookup", 5, trace::ms(99), 4));
  const auto report = r.now(trace::ms(3100));
  EXPECT_EQ(report.verdict, "server 0: handler running for 3.00 s (lookup, step 5); 3 actors waiting");
}

TEST(BlockedCalls, AMemberThatIsStoppedOrDeadIsNamedAsThat) {
  stuck_run r(1, 2);
  r.spread();
  r.actor(r.trainer(1)).process = 3;
  r.edit().processes.resize(4);
  r.edit().processes[3].pid = 103;
  r.call(0, {.number = 2, .since = trace::ms(100), .members = {0, 1}, .missing = {1}});
  for (trace::process_info& one : r.edit().processes) one.alive = true;
  r.edit().processes[3].stopped = true;
  EXPECT_EQ(r.now(trace::ms(2000)).verdict,
            "trainer 1 (pid 103) is stopped by a signal or a debugger; 'kill -CONT 103' lets it continue");
  r.edit().processes[3].stopped = false;
  r.edit().processes[3].alive = false;
  EXPECT_EQ(r.now(trace::ms(2000)).what, blockage::dead);
}

TEST(BlockedCalls, AShareThatIsLostIsNoFaultOfItsSender) {
  stuck_run r(1, 2);
  r.spread();
  r.actor(r.trainer(1)).process = 0;
  r.call(0, {.number = 2, .at_step = 5, .since = trace::ms(100), .members = {0, 1}, .missing = {1}});
  r.call(1, {.number = 2, .at_step = 5, .since = trace::ms(100), .members = {0, 1}, .missing = {}, .lacks_sums = true});
  r.frame(trace::kind::sent, "collective_share", r.trainer(1), r.trainer(0), trace::ms(101),
          {.step = 5, .sequence = 9});
  EXPECT_EQ(r.now(trace::ms(1101)).verdict,
            "trainer 1 #9 (collective_share, step 5) was sent by trainer 1 1.00 s ago, and never arrived at trainer 0");
}

TEST(BlockedCalls, OfATrainerThatIsNotRecordedHereNothingIsClaimed) {
  stuck_run r(1, 2);
  r.call(0, {.number = 2, .since = trace::ms(100), .members = {0, 1, 2}, .missing = {2}});
  const auto report = r.now(trace::ms(2000));
  EXPECT_EQ(report.what, blockage::none);
  EXPECT_TRUE(report.verdict.starts_with("no blockage is certain: trainer 0 waits for actor 5")) << report.verdict;
}

}  // namespace troupe::analysis::blocked_calls_test
