// Goal: a status request reports which actors wait for which, in any phase of a run, and does not affect the run.
// Method: runs under the deterministic scheduler that are blocked because a message is held back.

#include <filesystem>
#include <set>

#include "actors/collective/allreduce_group.hpp"
#include "model/checkpoint/store.hpp"
#include "tests/actors/server_stage.hpp"
#include "tests/actors/status_stage.hpp"

namespace troupe::actors::status_test {
namespace {

class Status : public status_stage {};

TEST_F(Status, NamesWhoWaitsForRowsAndForGradients) {
  begin(tutorial("2", "1"));
  run();
  const std::string digest = answer_->value->weights_digest;

  hold_gradients(1, 5);
  begin(tutorial("2", "1"));
  run();
  ASSERT_TRUE(answer_->pending());
  const msg::run_status now = overall();
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

/// The group of one of two processes, and a stand-in for the other's.
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
    std::size_t overall = 0;
    for (const auto& one : answers) {
      EXPECT_FALSE(one->pending());
      if (!one->value) continue;
      ++overall;
      phases.insert(one->value->phase);
      for (const msg::wait_status& wait : one->value->waits) {
        EXPECT_NE(wait.who, wait.on);
        waits.insert(wait.what);
      }
    }
    EXPECT_GT(overall, 10u);
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
  job.emplace_back("consistency", "ssp:1");  // so that trainers pause
  begin(job, {}, checkpoints);
  run();
  ASSERT_TRUE(answer_->pending());
  const msg::run_status now = overall();
  EXPECT_EQ(now.phase, "saving");
  EXPECT_EQ(phases_of(now), (lines{"server 0: idle", "trainer 0: saving", "trainer 1: saving"}));
  EXPECT_EQ(waits_of(now),
            (lines{"trainer 0 < the checkpoint 10 < server 0", "trainer 1 < the checkpoint 10 < server 0"}));
  std::filesystem::remove_all(folder);
}

// -- one server -------------------------------------------------------------------

class StatusOfServer : public server_stage {
 protected:
  lines overall() {
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
  EXPECT_EQ(overall(), lines{});
}

TEST_F(StatusOfServer, NamesTheNextGradientOfAnAccumulatedStep) {
  make(2, "sum", "sum", 3);
  auto parked = ask<msg::rows>(server_, look_up(4, {1}));
  run();
  EXPECT_EQ(overall(), (lines{"gradients 1 < trainer 0", "gradients 1 < trainer 1"}));
  send(grad(1, 0, 3, 1, false));
  send(grad(2, 0, 3, 1, false));
  EXPECT_EQ(overall(), (lines{"gradients 3 < trainer 0", "gradients 1 < trainer 1"}));
  send(grad(3, 0, 3, 1));
  EXPECT_EQ(overall(), (lines{"gradients 1 < trainer 1"}));
}

TEST_F(StatusOfServer, NamesWhoseVerdictOnTheStepIsMissing) {
  make(2);
  send(grad(1, 0, 3, 1, false));
  auto first = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 0});
  run();
  EXPECT_EQ(overall(), (lines{"gradients 1 < trainer 1"})) << "what trainer 0 has not sent, it cannot send yet";
  send(grad(1, 1, 3, 1, false));
  auto second = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 1});
  auto order = ask<msg::committed>(server_, msg::optimizer_step{head(1), 1, true, 1});
  run();
  EXPECT_EQ(overall(), (lines{"the optimizer step 1 < trainer 0"}));
}

TEST_F(StatusOfServer, NamesWhoIsBehindWhereTrainersHaveNoStepInCommon) {
  make(2, "sum", "sum", 1, model::any_staleness);
  send(grad(1, 0, 3, 1));
  send(grad(2, 0, 3, 1));
  send(grad(1, 1, 3, 1));
  EXPECT_EQ(overall(), lines{});
  auto test_rows = ask<msg::rows>(server_, look_up(3, {1}));
  run();
  EXPECT_EQ(overall(), (lines{"gradients 2 < trainer 1"}));
}

// -- before the run -------------------------------------------------------------

}  // namespace
}  // namespace troupe::actors::status_test
