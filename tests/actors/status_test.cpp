// Goal: whoever asks learns who waits on whom, in any phase of a run, and the run goes on as if nobody had asked.
// Method: runs under the deterministic scheduler that stand still because a message is held back.

#include <filesystem>
#include <set>

#include "actors/allreduce_group.hpp"
#include "model/checkpoint/store.hpp"
#include "tests/actors/run_stage.hpp"
#include "tests/actors/server_stage.hpp"
#include "tests/actors/slow_road.hpp"

namespace troupe::actors::status_test {
namespace {

using lines = std::vector<std::string>;

class Status : public run_stage {
 protected:
  /// How the run is when everybody has done all that can be done.
  msg::run_status told() {
    auto answer = ask<msg::run_status>(master_, msg::status{});
    run();
    EXPECT_TRUE(answer->value) << protocol::describe(answer->error);
    return answer->value.value_or(msg::run_status{});
  }

  static lines waits_of(const msg::run_status& now) {
    lines all;
    for (const msg::wait_status& wait : now.waits)
      all.push_back(wait.who + " < " + wait.what + " " + std::to_string(wait.step) + " < " + wait.on);
    return all;
  }

  static lines phases_of(const msg::run_status& now) {
    lines all;
    for (const msg::actor_status& one : now.actors) all.push_back(one.name + ": " + one.phase);
    return all;
  }

  /// Holds back the gradients of `rank` from `step` on.
  void hold_gradients(std::uint32_t rank, std::uint64_t step) {
    road_ = {rank, step, {}, false, {}};
    relay_ = [this](const msg::parameter_server_actor& server) {
      return spawn([this, server](msg::parameter_server_actor::pointer self) { return road_.behavior(self, server); });
    };
  }

  void release() {
    while (!road_.kept.empty()) {
      auto late = std::exchange(road_.kept, {});
      road_.step = UINT64_MAX;
      for (msg::gradient& one : late) caf::anon_send(servers_[0], std::move(one));
      run();
    }
  }

  slow_road road_{};
};

TEST_F(Status, NamesWhoWaitsForRowsAndForGradients) {
  begin(tutorial("2", "1"));
  run();
  const std::string digest = answer_->value->weights_digest;

  hold_gradients(1, 5);
  begin(tutorial("2", "1"));
  run();
  ASSERT_TRUE(answer_->pending());
  const msg::run_status now = told();
  EXPECT_EQ(now.phase, "training");
  EXPECT_EQ(now.total_steps, 25u);
  EXPECT_EQ(now.servers, 1u);
  EXPECT_EQ(now.trainers, 2u);
  EXPECT_EQ(phases_of(now), (lines{"server 0: waiting", "trainer 0: looking up", "trainer 1: looking up"}));
  EXPECT_EQ(waits_of(now), (lines{"server 0 < gradients 5 < trainer 1", "trainer 0 < rows 6 < server 0",
                                  "trainer 1 < rows 6 < server 0"}));
  EXPECT_EQ(now.actors[0].step, 4u);
  EXPECT_EQ(now.actors[1].step, 6u);
  ASSERT_EQ(now.actors[0].queues.size(), 2u);
  EXPECT_EQ(now.actors[0].queues[0].name, "lookups parked of trainer 0");
  EXPECT_EQ(now.actors[0].queues[1].name, "lookups parked of trainer 1");
  EXPECT_EQ(now.actors[0].queues[1].messages, 1u);

  release();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_EQ(answer_->value->weights_digest, digest) << "asking changes nothing";
}

/// A group of one of two processes, and what stands for the other's.
TEST_F(Status, AGroupNamesTheRanksThatHaveNotSent) {
  auto other = spawn([](msg::allreduce_actor::pointer) {
    return msg::allreduce_actor::behavior_type{[](msg::reduce&) { return msg::reduced{}; }, [](msg::bucket_share&) {},
                                               [](msg::bucket_sum&) {}, [](msg::group_devices&) {},
                                               [](msg::actor_query&) { return msg::actor_status{}; }};
  });
  const group_layout layout{{0, 0, 1}, {msg::allreduce_actor(), other}, 0};
  auto group = spawn(allreduce_group, std::uint64_t{1}, layout);
  auto idle = ask<msg::actor_status>(group, msg::actor_query{});
  run();
  EXPECT_EQ(idle->value->phase, "idle");
  EXPECT_TRUE(idle->value->waits.empty());
  const auto share = [](std::uint64_t step, std::uint32_t rank, std::uint64_t sequence) {
    return msg::reduce{
        {1, step, 0, 0, sequence, 0}, rank, 2, 1, false, msg::tensor::own(3, 1, std::vector<float>{1, 2, 3})};
  };
  auto first = ask<msg::reduced>(group, share(7, 1, 1));
  run();
  auto now = ask<msg::actor_status>(group, msg::actor_query{});
  run();
  ASSERT_EQ(now->value->waits.size(), 2u);
  EXPECT_EQ(now->value->phase, "waiting");
  EXPECT_EQ(now->value->waits[0].what, "bucket 2");
  EXPECT_EQ(now->value->waits[0].step, 7u);
  EXPECT_EQ(now->value->waits[0].on, "trainer 0");
  EXPECT_EQ(now->value->waits[1].on, "trainer 2");
}

TEST_F(Status, AskedAtAnyMomentItAnswersAndChangesNothing) {
  begin(tutorial("3", "2"));
  run();
  const std::string digest = answer_->value->weights_digest;
  std::set<std::string> phases;
  std::set<std::string> waits;
  for (std::size_t every : {3, 7, 31}) {
    begin(tutorial("3", "2"));
    std::vector<std::shared_ptr<outcome<msg::run_status>>> answers;
    while (answer_->pending() && !scheduler().jobs.empty()) {
      handle(every);
      answers.push_back(ask<msg::run_status>(master_, msg::status{}));
    }
    run();
    ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
    EXPECT_EQ(answer_->value->weights_digest, digest) << "asked every " << every;
    std::size_t told = 0;
    for (const auto& one : answers) {
      EXPECT_FALSE(one->pending());
      if (!one->value) continue;
      ++told;
      phases.insert(one->value->phase);
      for (const msg::wait_status& wait : one->value->waits) {
        EXPECT_NE(wait.who, wait.on);
        waits.insert(wait.what);
      }
    }
    EXPECT_GT(told, 10u);
  }
  EXPECT_TRUE(phases.contains("training"));
  EXPECT_TRUE(waits.contains("rows"));
  EXPECT_TRUE(waits.contains("bucket 0"));
}

TEST_F(Status, AnActorThatDoesNotAnswerIsComputing) {
  std::vector<caf::typed_response_promise<msg::actor_status>> unanswered;
  relay_trainer_ = [this, &unanswered](const msg::trainer_actor& real) {
    return spawn([real, &unanswered](msg::trainer_actor::pointer self) {
      return msg::trainer_actor::behavior_type{
          [self, real](msg::train& order) { return self->delegate(real, std::move(order)); },
          [self, real](const msg::stop& order) { self->send(real, order); }, [](const msg::trainer_ended&) {},
          [self, &unanswered](const msg::actor_query&) {
            return unanswered.emplace_back(self->make_response_promise<msg::actor_status>());
          }};
    });
  };
  hold_gradients(0, 3);
  begin(tutorial("1", "1"));
  run();
  auto answer = ask<msg::run_status>(master_, msg::status{});
  auto another = ask<msg::run_status>(master_, msg::status{});
  run();
  ASSERT_TRUE(answer->pending());
  scheduler().advance_time(std::chrono::seconds(1));
  run();
  ASSERT_TRUE(answer->value) << protocol::describe(answer->error);
  EXPECT_EQ(phases_of(*answer->value), (lines{"server 0: waiting", "trainer 0: computing"}));
  EXPECT_EQ(waits_of(*answer->value), (lines{"server 0 < gradients 3 < trainer 0"}));
  ASSERT_TRUE(another->value) << "one round answers all who have asked";
}

TEST_F(Status, NamesWhoWaitsForACheckpoint) {
  std::string folder = (std::filesystem::temp_directory_path() / "troupe-status-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  auto opened = model::checkpoint_store::open(folder, nullptr);
  ASSERT_TRUE(opened) << opened.error().message;
  run_checkpoints checkpoints;
  checkpoints.store = std::make_shared<model::checkpoint_store>(std::move(*opened));
  checkpoints.every = 10;
  hold_gradients(1, UINT64_MAX);
  road_.never_saves = true;
  auto job = tutorial("2", "1");
  job.emplace_back("consistency", "ssp:1");  // for which trainers stand still
  begin(job, {}, checkpoints);
  run();
  ASSERT_TRUE(answer_->pending());
  const msg::run_status now = told();
  EXPECT_EQ(now.phase, "saving");
  EXPECT_EQ(phases_of(now), (lines{"server 0: idle", "trainer 0: saving", "trainer 1: saving"}));
  EXPECT_EQ(waits_of(now),
            (lines{"trainer 0 < the checkpoint 10 < server 0", "trainer 1 < the checkpoint 10 < server 0"}));
  std::filesystem::remove_all(folder);
}

// -- one server -------------------------------------------------------------------

class StatusOfServer : public server_stage {
 protected:
  lines told() {
    auto answer = ask<msg::actor_status>(server_, msg::actor_query{head(0)});
    run();
    lines all;
    EXPECT_TRUE(answer->value) << protocol::describe(answer->error);
    if (!answer->value) return all;
    for (const msg::wait_status& wait : answer->value->waits)
      all.push_back(wait.what + " " + std::to_string(wait.step) + " < " + wait.on);
    EXPECT_EQ(answer->value->phase, all.empty() ? "idle" : "waiting");
    return all;
  }
};

TEST_F(StatusOfServer, WithNothingToDoItWaitsForNobody) {
  make(2);
  EXPECT_EQ(told(), lines{});
}

TEST_F(StatusOfServer, NamesTheNextGradientOfAnAccumulatedStep) {
  make(2, "sum", "sum", 3);
  auto parked = ask<msg::rows>(server_, look_up(4, {1}));
  run();
  EXPECT_EQ(told(), (lines{"gradients 1 < trainer 0", "gradients 1 < trainer 1"}));
  send(grad(1, 0, 3, 1, false));
  send(grad(2, 0, 3, 1, false));
  EXPECT_EQ(told(), (lines{"gradients 3 < trainer 0", "gradients 1 < trainer 1"}));
  send(grad(3, 0, 3, 1));
  EXPECT_EQ(told(), (lines{"gradients 1 < trainer 1"}));
}

TEST_F(StatusOfServer, NamesWhoseVerdictOnTheStepIsMissing) {
  make(2);
  send(grad(1, 0, 3, 1, false));
  auto first = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 0});
  run();
  EXPECT_EQ(told(), (lines{"gradients 1 < trainer 1"})) << "what trainer 0 has not sent, it cannot send yet";
  send(grad(1, 1, 3, 1, false));
  auto second = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 1});
  auto order = ask<msg::committed>(server_, msg::optimizer_step{head(1), 1, true, 1});
  run();
  EXPECT_EQ(told(), (lines{"the optimizer step 1 < trainer 0"}));
}

TEST_F(StatusOfServer, NamesWhoIsBehindWhereTrainersHaveNoStepInCommon) {
  make(2, "sum", "sum", 1, model::any_staleness);
  send(grad(1, 0, 3, 1));
  send(grad(2, 0, 3, 1));
  send(grad(1, 1, 3, 1));
  EXPECT_EQ(told(), lines{});
  auto test_rows = ask<msg::rows>(server_, look_up(3, {1}));
  run();
  EXPECT_EQ(told(), (lines{"gradients 2 < trainer 1"}));
}

// -- before the run -------------------------------------------------------------

class StatusOfGathering : public Status {
 protected:
  void wait_for_members() {
    master_ = spawn(master, std::uint64_t{1}, run_observer{}, run_checkpoints{}, std::optional(node_rules{}), plan_job);
    answer_ = ask<msg::run_result>(master_, troupe::msg::run{{}, tutorial("2", "1"), false});
    run();
  }

  /// A process that offers a trainer or a server and then says nothing.
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

  /// The process that came last hands over one of its actors, as a request whose answer it does not look at.
  template <class Offer>
  void offer(Offer what) {
    const auto boss = caf::actor_cast<caf::strong_actor_ptr>(master_);
    boss->enqueue(caf::actor_cast<caf::strong_actor_ptr>(node_), caf::make_message_id(1),
                  caf::make_message(std::move(what)), nullptr);
    run();
  }

  msg::node_actor node_;
  std::vector<caf::typed_response_promise<msg::committed>> unanswered_;
  std::chrono::seconds evidence_after_{0};  ///< of the process that comes next, until it answers
};

TEST_F(StatusOfGathering, TellsWhoIsMissing) {
  wait_for_members();
  msg::run_status now = told();
  EXPECT_EQ(now.phase, "waiting for members");
  EXPECT_EQ(now.total_steps, 25u);
  EXPECT_EQ(waits_of(now), (lines{" < 1 server and 2 trainers to join 0 < "}));
  EXPECT_FALSE(now.samples_per_s);

  ASSERT_TRUE(come(true, "fast")->value);
  now = told();
  ASSERT_EQ(now.nodes.size(), 1u);
  EXPECT_TRUE(now.nodes[0].trains);
  EXPECT_EQ(now.nodes[0].ranks, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(now.nodes[0].host, "a");
  EXPECT_EQ(now.nodes[0].pid, 17u);
  EXPECT_EQ(now.nodes[0].name, "fast");
  ASSERT_EQ(now.nodes[0].links.size(), 1u);
  EXPECT_EQ(now.nodes[0].links[0].bytes, 4096u);
  EXPECT_EQ(now.trainers, 0u) << "its trainer has not come yet";

  // Rank 1 before rank 0: there is a gap.
  caf::anon_send(master_, msg::node_lost{{}, "nobody's session", "a client has gone"});
  ASSERT_TRUE(come(true, "slow")->value);
  offer(msg::join_trainer{{}, spawn(trainer, std::uint64_t{1}, 1U, 1U), 1});
  now = told();
  EXPECT_EQ(now.trainers, 1u);
  EXPECT_EQ(phases_of(now), (lines{"trainer 1: idle"}));
  EXPECT_EQ(waits_of(now), (lines{" < 1 server and 1 trainer to join 0 < "}));
}

// A process on a slow machine takes seconds to look at its threads and to send its ring.
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
  const msg::run_status now = told();
  EXPECT_EQ(now.phase, "connecting");
  EXPECT_EQ(waits_of(now), (lines{"master < data links 0 < server 0", "master < data links 0 < trainer 0",
                                  "master < data links 0 < trainer 1"}));
}

TEST_F(StatusOfGathering, AWishToStopBeforeTheFirstStepEndsTheRunAtOnce) {
  wait_for_members();
  ASSERT_TRUE(come(false, "a")->value);
  offer(msg::join_server{{}, spawn(parameter_server, std::uint64_t{1}, 0U), 0});
  for (std::uint32_t rank : {0U, 1U}) {
    ASSERT_TRUE(come(true, std::to_string(rank))->value);
    offer(msg::join_trainer{{}, spawn(trainer, std::uint64_t{1}, rank, 1U), rank});
  }
  ASSERT_EQ(told().phase, "connecting");
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
  EXPECT_EQ(told().phase, "waiting for members");
  answer_ = ask<msg::run_result>(master_, troupe::msg::run{{}, tutorial("2", "1"), false});
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_TRUE(answer_->value->stopped);
  EXPECT_EQ(answer_->value->steps, 0u);
}

}  // namespace
}  // namespace troupe::actors::status_test
