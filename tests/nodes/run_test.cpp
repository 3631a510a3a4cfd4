// Whole runs under the deterministic scheduler: results do not depend on the order of messages, and every failure ends
// the run with one line that names the actor, the step and the cause.

#include "base/digest.hpp"
#include "cluster/nodes/run_job.hpp"

#include <stdexcept>

#include "tests/actors/run_stage.hpp"

namespace troupe::nodes::run_test {
namespace {

using Runs = actors::run_stage;

TEST_F(Runs, TheWeightsDoNotDependOnTheOrderOfMessagesNorOnTheNumberOfServers) {
  std::string digest;
  double loss = 0;
  for (const char* servers : {"1", "2", "3"}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      begin(tutorial("3", servers));
      run_shuffled(seed);
      ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
      if (digest.empty()) {
        digest = answer_->value->weights_digest;
        loss = answer_->value->loss;
      }
      EXPECT_EQ(answer_->value->weights_digest, digest) << servers << " servers, order " << seed;
      EXPECT_EQ(answer_->value->loss, loss) << servers << " servers, order " << seed;
    }
  }
}

TEST_F(Runs, AnotherSeedGivesOtherWeights) {
  begin(tutorial("2", "1"));
  run();
  const std::string digest = answer_->value->weights_digest;
  auto other = tutorial("2", "1");
  other.back().second = "4";
  begin(other);
  run();
  EXPECT_NE(answer_->value->weights_digest, digest);
}

TEST_F(Runs, AllTrainersTellTheirWeightsDigestAndRank0TheWeights) {
  std::vector<msg::trained> told;
  std::uint64_t tamper = 0;  // if not 0, changes rank 1's digest
  relay_trainer_ = [&](const msg::trainer_actor& real) {
    return spawn([&told, &tamper, real](msg::trainer_actor::pointer self) {
      return msg::trainer_actor::behavior_type{
          [&told, &tamper, real, self](msg::train& order) -> caf::result<msg::trained> {
            auto promise = self->make_response_promise<msg::trained>();
            const bool is_tampered_with = order.rank == 1;
            self->request(real, caf::infinite, std::move(order))
                .then([=, &told, &tamper](msg::trained& result) mutable {
                  told.push_back(result);
                  if (is_tampered_with) result.dense_digest ^= tamper;
                  promise.deliver(std::move(result));
                });
            return promise;
          },
          [](const msg::stop&) {}, [](const msg::trainer_ended&) {},
          [](const msg::actor_query&) { return msg::actor_status{}; }};
    });
  };
  begin(tutorial("3", "1"));
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  ASSERT_EQ(told.size(), 3u);
  std::size_t with_weights = 0;
  for (const msg::trained& one : told) {
    EXPECT_EQ(one.dense_digest, told[0].dense_digest);
    if (one.dense.rows == 0) continue;
    ++with_weights;
    EXPECT_EQ(one.dense_digest, digest_of(one.dense.bytes.data(), one.dense.bytes.size()));
  }
  EXPECT_EQ(with_weights, 1u);

  tamper = 1;
  begin(tutorial("3", "1"));
  run();
  EXPECT_EQ(protocol::describe(answer_->error), "master, step 25: the dense weights of trainers 0 and 1 differ");
}

TEST_F(Runs, EpochsAreReportedInOrderAndWithEveryRanksLosses) {
  std::vector<actors::epoch_summary> epochs;
  actors::run_observer observer;
  observer.on_epoch = [&](const actors::epoch_summary& e) { epochs.push_back(e); };
  begin(tutorial("2", "1"), std::move(observer));
  run_shuffled(5);
  ASSERT_EQ(epochs.size(), 3u);
  std::uint64_t samples = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(epochs[i].epoch, i + 1);
    EXPECT_EQ(epochs[i].steps, i < 2 ? 10u : 5u);
    ASSERT_EQ(epochs[i].losses.size(), 2u);
    EXPECT_EQ(epochs[i].losses[1].size(), epochs[i].steps);
    EXPECT_FALSE(epochs[i].figures.auc);
    samples += epochs[i].samples;
  }
  EXPECT_EQ(answer_->value->samples, samples);
  EXPECT_EQ(answer_->value->loss, epochs.back().figures.loss);
}

// Without learning, any number of trainers gives the same weights and the same predictions of the 4096 test rows. These
// are four chunks, so the fifth trainer has none.
TEST_F(Runs, EveryTestRowIsScoredOnceHoweverManyTrainersThereAre) {
  std::vector<actors::epoch_summary> epochs;
  actors::run_observer observer;
  observer.on_epoch = [&](const actors::epoch_summary& e) { epochs.push_back(e); };
  for (const char* trainers : {"1", "3", "5"}) {
    begin({{"data", "synthetic"},
           {"rows", "100"},
           {"trainers", trainers},
           {"steps", "1"},
           {"dense-lr", "0"},
           {"sparse-lr", "0"}},
          observer);
    run();
    ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  }
  ASSERT_EQ(epochs.size(), 3u);
  for (const actors::epoch_summary& epoch : epochs) {
    EXPECT_TRUE(epoch.figures.auc);
    EXPECT_EQ(epoch.figures.auc, epochs.front().figures.auc);
    EXPECT_EQ(epoch.figures.accuracy, epochs.front().figures.accuracy);
  }
}

TEST_F(Runs, AnActorThatDiesEndsTheRunAndEveryoneElse) {
  for (std::size_t victim = 0; victim < 3; ++victim) {
    for (std::size_t after : {30, 60, 120, 200}) {
      begin(tutorial("2", "1"));
      handle(after);
      ASSERT_TRUE(answer_->pending());
      const caf::actor killed =
          victim < 2 ? caf::actor_cast<caf::actor>(trainers_[victim]) : caf::actor_cast<caf::actor>(servers_[0]);
      auto others = watch(trainers_[victim == 0 ? 1 : 0]);
      auto boss = watch(master_);
      caf::anon_send_exit(killed, caf::exit_reason::kill);
      run();
      scheduler().advance_time(std::chrono::seconds(2));
      run();
      EXPECT_FALSE(answer_->pending());
      EXPECT_EQ(answer_->error, protocol::errc::peer_failed);
      EXPECT_TRUE(*others && *boss) << "victim " << victim << " after " << after;
      const std::string line = protocol::describe(answer_->error);
      EXPECT_NE(line.find("step"), std::string::npos) << line;
    }
  }
}

TEST_F(Runs, AServerThatRefusesEndsTheRunWithItsOwnWords) {
  begin(tutorial("2", "1"));
  handle(60);
  msg::gradient wrong{{1, 1'000'000, 0, 0, 1'000'000, 0}, 0, true, true, {}};
  caf::anon_send(servers_[0], wrong);
  run();
  scheduler().advance_time(std::chrono::seconds(2));
  run();
  EXPECT_EQ(answer_->error, protocol::errc::wrong_context);
  EXPECT_EQ(protocol::describe(answer_->error).rfind("server 0, step ", 0), 0u) << protocol::describe(answer_->error);
}

TEST_F(Runs, ALossThatIsNotFiniteEndsTheRunNamingTrainerAndStep) {
  auto settings = tutorial("2", "1");
  settings.emplace_back("dense-lr", "1000000");
  settings.emplace_back("sparse-lr", "1000000");
  begin(settings);
  run();
  scheduler().advance_time(std::chrono::seconds(2));
  run();
  EXPECT_EQ(answer_->error, protocol::errc::not_finite);
  const std::string line = protocol::describe(answer_->error);
  EXPECT_EQ(line.rfind("trainer ", 0), 0u) << line;
  EXPECT_NE(line.find(", step "), std::string::npos) << line;
  EXPECT_NE(line.find("--dense-lr"), std::string::npos) << line;
}

TEST_F(Runs, AnExceptionInTheMasterEndsTheRunNamingIt) {
  actors::run_observer observer;
  observer.on_epoch = [](const actors::epoch_summary&) { throw std::runtime_error("the log has gone"); };
  begin(tutorial("2", "1"), std::move(observer));
  auto other = watch(trainers_[0]);
  run();
  EXPECT_EQ(answer_->error, protocol::errc::exception) << protocol::describe(answer_->error);
  EXPECT_EQ(protocol::describe(answer_->error), "master, step 10: the log has gone");
  EXPECT_TRUE(*other);
}

TEST_F(Runs, AWishToStopEndsAllTrainersAfterTheSameStep) {
  for (std::size_t after : {40, 75, 150, 300}) {
    auto settings = tutorial("3", "2");
    settings[3].second = "100000";
    begin(settings);
    handle(after);
    caf::anon_send(master_, msg::stop{});
    run_shuffled(after);
    ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
    EXPECT_TRUE(answer_->value->stopped);
    EXPECT_LT(answer_->value->steps, 1000u);
  }
}

TEST_F(Runs, TooFewMembersAreRefused) {
  begin(tutorial("2", "1"));
  auto settings = tutorial("3", "1");
  run();
  auto boss = spawn(actors::master, std::uint64_t{1}, actors::run_observer{}, actors::run_checkpoints{},
                    std::optional<actors::node_rules>(), actors::plan_job);
  auto refused = ask<msg::run_result>(boss, troupe::msg::run{{}, settings, false});
  run();
  EXPECT_EQ(refused->error, protocol::errc::bad_input);
  EXPECT_NE(protocol::describe(refused->error).find("0 servers and 0 trainers have joined"), std::string::npos);
}

TEST_F(Runs, StatusTellsPhaseAndMembers) {
  auto settings = tutorial("2", "1");
  settings[3].second = "100000";
  begin(settings);
  handle(80);
  auto answer = ask<msg::run_status>(master_, msg::status{});
  for (int i = 0; i < 1000 && answer->pending(); ++i) handle(1);
  ASSERT_TRUE(answer->value);
  EXPECT_EQ(answer->value->phase, "training");
  EXPECT_EQ(answer->value->total_steps, 100'000u);
  EXPECT_EQ(answer->value->servers, 1u);
  EXPECT_EQ(answer->value->trainers, 2u);
}

}  // namespace
}  // namespace troupe::nodes::run_test
