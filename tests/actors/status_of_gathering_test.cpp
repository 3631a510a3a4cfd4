// Goal: a status request to a run that is still gathering says what is missing, and a request to stop ends it. Method:
// as for runs that have begun (status_test.cpp), with members that do not answer.

#include <set>

#include "tests/actors/status_stage.hpp"

namespace troupe::actors::status_of_gathering_test {
namespace {

class StatusOfGathering : public status_stage {
 protected:
  void wait_for_members() {
    master_ = spawn(master, std::uint64_t{1}, run_observer{}, run_checkpoints{}, std::optional(node_rules{}), plan_job);
    answer_ = ask<msg::run_result>(master_, troupe::msg::run{{}, tutorial("2", "1"), false});
    run();
  }

  /// Adds a process that offers a trainer or a server and is silent afterwards.
  std::shared_ptr<outcome<msg::admitted>> come(bool trains, const std::string& name) {
    node_ = spawn([this](msg::node_actor::pointer self) {
      return msg::node_actor::behavior_type{
          [this, self](const msg::expect_peers&) {
            return unanswered_.emplace_back(self->make_response_promise<msg::committed>());
          },
          [self](const msg::connect_peers&) { return self->make_response_promise<msg::connected>(); },
          [](const msg::host_ranks&) {},
          [](const msg::run_over&) {},
          [](const msg::actor_query&) {
            return msg::actor_status{{}, "node", "", 0, {}, {{"server 0", 2, 4096, 0}}};
          },
          [self, after = evidence_after_](const msg::evidence_query&) {
            auto promise = self->make_response_promise<msg::evidence>();
            self->run_delayed(after, [promise]() mutable {
              promise.deliver(msg::evidence{{}, "late.ring", {}, {}, {}});
            });
            return promise;
          }};
    });
    auto place = ask<msg::admitted>(
        master_, msg::join_node{{}, trains, 1, msg::any_rank, name, "a", 17, "127.0.0.1:1", name, {}, node_});
    run();
    return place;
  }

  /// The last process hands over one of its actors in a request whose answer it ignores.
  template <class Offer>
  void offer(Offer what) {
    const auto boss = caf::actor_cast<caf::strong_actor_ptr>(master_);
    boss->enqueue(caf::actor_cast<caf::strong_actor_ptr>(node_), caf::make_message_id(1),
                  caf::make_message(std::move(what)), nullptr);
    run();
  }

  msg::node_actor node_;
  std::vector<caf::typed_response_promise<msg::committed>> unanswered_;
  std::chrono::seconds evidence_after_{0};  ///< how long the next process takes to answer
};

TEST_F(StatusOfGathering, TellsWhoIsMissing) {
  wait_for_members();
  msg::run_status now = overall();
  EXPECT_EQ(now.phase, "waiting for members");
  EXPECT_EQ(now.total_steps, 25u);
  EXPECT_EQ(waits_of(now), (lines{" < 1 server and 2 trainers to join 0 < "}));
  EXPECT_FALSE(now.samples_per_s);

  ASSERT_TRUE(come(true, "fast")->value);
  now = overall();
  ASSERT_EQ(now.nodes.size(), 1u);
  EXPECT_TRUE(now.nodes[0].trains);
  EXPECT_EQ(now.nodes[0].ranks, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(now.nodes[0].host, "a");
  EXPECT_EQ(now.nodes[0].pid, 17u);
  EXPECT_EQ(now.nodes[0].name, "fast");
  ASSERT_EQ(now.nodes[0].links.size(), 1u);
  EXPECT_EQ(now.nodes[0].links[0].bytes, 4096u);
  EXPECT_EQ(now.trainers, 0u) << "its trainer has not come yet";

  // Rank 1 joins before rank 0: there is a gap.
  caf::anon_send(master_, msg::node_lost{{}, "an unknown session", "a client has gone"});
  ASSERT_TRUE(come(true, "slow")->value);
  offer(msg::join_trainer{{}, spawn(trainer, std::uint64_t{1}, 1U, 1U), 1});
  now = overall();
  EXPECT_EQ(now.trainers, 1u);
  EXPECT_EQ(phases_of(now), (lines{"trainer 1: idle"}));
  EXPECT_EQ(waits_of(now), (lines{" < 1 server and 1 trainer to join 0 < "}));
}

// A process on a slow machine takes seconds to inspect its threads and to send its ring.
TEST_F(StatusOfGathering, EvidenceThatTakesSecondsIsWaitedForAndOfASilentProcessIsLeftOut) {
  wait_for_members();
  evidence_after_ = std::chrono::seconds(6);
  ASSERT_TRUE(come(true, "slow")->value);
  evidence_after_ = std::chrono::hours(1);
  ASSERT_TRUE(come(true, "silent")->value);
  const auto answer = ask<msg::collected_evidence>(master_, msg::collect_evidence{{}, "this machine"});
  run();
  for (const int seconds : {6, 5}) {
    ASSERT_TRUE(answer->pending()) << seconds;
    scheduler().advance_time(std::chrono::seconds(seconds));
    run();
  }
  ASSERT_TRUE(answer->value) << protocol::describe(answer->error);
  ASSERT_EQ(answer->value->parts.size(), 1u);
  EXPECT_EQ(answer->value->parts[0].file, "late.ring");
}

TEST_F(StatusOfGathering, TellsWhoseLinksAreMissing) {
  wait_for_members();
  ASSERT_TRUE(come(false, "a")->value);
  offer(msg::join_server{{}, spawn(parameter_server, std::uint64_t{1}, 0U), 0});
  for (std::uint32_t rank : {0U, 1U}) {
    ASSERT_TRUE(come(true, std::to_string(rank))->value);
    offer(msg::join_trainer{{}, spawn(trainer, std::uint64_t{1}, rank, 1U), rank});
  }
  const msg::run_status now = overall();
  EXPECT_EQ(now.phase, "connecting");
  EXPECT_EQ(waits_of(now), (lines{"master < data links 0 < server 0", "master < data links 0 < trainer 0",
                                  "master < data links 0 < trainer 1"}));
}

TEST_F(StatusOfGathering, AWishForOtherTrainersIsRefusedByWhatTheRunIs) {
  const auto refusal = [this](const planner& plan) {
    master_ = spawn(master, std::uint64_t{1}, run_observer{}, run_checkpoints{}, std::optional(node_rules{}), plan);
    answer_ = ask<msg::run_result>(master_, troupe::msg::run{{}, tutorial("2", "1"), false});
    std::string why = "none";
    spawn([this, &why](caf::event_based_actor* self) {
      self->request(master_, caf::infinite, msg::scale{{}, 3})
          .then([] {}, [&why](const caf::error& error) { why = protocol::describe(error); });
    });
    run();
    return why;
  };
  EXPECT_EQ(refusal(plan_job),
            "--trainers 3: the run has 2 trainers to its end: only one with --elastic MIN:MAX can have others");
  const planner of_program = [](const troupe::msg::run&, const run_checkpoints& checkpoints) {
    run_plan plan;
    plan.servers = 1;
    plan.trainers = 2;
    plan.checkpoints = checkpoints;
    return caf::expected<run_plan>(std::move(plan));
  };
  EXPECT_EQ(refusal(of_program),
            "--trainers 3: the run is a program's, which has as many trainers to its end; begin it anew with others");
}

TEST_F(StatusOfGathering, AWishToStopBeforeTheFirstStepEndsTheRunAtOnce) {
  wait_for_members();
  ASSERT_TRUE(come(false, "a")->value);
  offer(msg::join_server{{}, spawn(parameter_server, std::uint64_t{1}, 0U), 0});
  for (std::uint32_t rank : {0U, 1U}) {
    ASSERT_TRUE(come(true, std::to_string(rank))->value);
    offer(msg::join_trainer{{}, spawn(trainer, std::uint64_t{1}, rank, 1U), rank});
  }
  ASSERT_EQ(overall().phase, "connecting");
  caf::anon_send(master_, msg::stop{});
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_TRUE(answer_->value->stopped);
  EXPECT_EQ(answer_->value->steps, 0u);
}

TEST_F(StatusOfGathering, AWishToStopBeforeTheOrderIsKept) {
  master_ = spawn(master, std::uint64_t{1}, run_observer{}, run_checkpoints{}, std::optional(node_rules{}), plan_job);
  caf::anon_send(master_, msg::stop{});
  run();
  auto early = come(true, "early");
  EXPECT_TRUE(early->pending());
  EXPECT_EQ(overall().phase, "waiting for members");
  answer_ = ask<msg::run_result>(master_, troupe::msg::run{{}, tutorial("2", "1"), false});
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_TRUE(answer_->value->stopped);
  EXPECT_EQ(answer_->value->steps, 0u);
}

}  // namespace
}  // namespace troupe::actors::status_of_gathering_test
