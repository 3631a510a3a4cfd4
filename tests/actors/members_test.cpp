// Roles in a run: a process fills only the positions assigned to it, and frees them when it leaves.

#include <filesystem>

#include "actors/collective/allreduce_group.hpp"
#include "actors/master/master.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/trainer/job_trainer.hpp"
#include "tests/actors/stage.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::actors::members_test {
namespace {

class Members : public stage {
 protected:
  /// A node as the master sees it; the test decides what it does.
  struct fake_node {
    msg::node_actor handle;
    std::shared_ptr<outcome<msg::admitted>> place = std::make_shared<outcome<msg::admitted>>();
    std::shared_ptr<outcome<msg::joined>> filled = std::make_shared<outcome<msg::joined>>();
  };

  /// What a node does once it is admitted.
  using deed = std::function<void(msg::node_actor::pointer, const fake_node&)>;

  Members() { lead({}); }

  /// Spawns a master without members.
  void lead(run_checkpoints checkpoints, bool own_members = false) {
    run_observer observer;
    observer.on_note = [this](const std::string& line) { notes_.push_back(line); };
    observer.on_failure = [this](std::uint64_t step) { failed_in_ = step; };
    master_ =
        spawn(master, std::uint64_t{1}, std::move(observer), std::move(checkpoints),
              std::optional<node_rules>(node_rules{std::chrono::seconds(60), "start anew", own_members}), plan_job);
  }

  /// Requests a run with one server and one trainer.
  void order() {
    answer_ = ask<msg::run_result>(
        master_, troupe::msg::run{{}, {{"data", "tutorial"}, {"servers", "1"}, {"trainers", "1"}}, false});
    run();
  }

  fake_node join(bool trains, const deed& then = {}, std::uint32_t count = 1, std::uint32_t rank = msg::any_rank) {
    fake_node made;
    msg::join_node offer;
    offer.trains = trains;
    offer.count = count;
    offer.rank = rank;
    offer.host = "a";
    offer.pid = ++pids_;
    offer.session = std::to_string(pids_);
    // Links take a while: the run has begun, but not training.
    const auto waits = std::make_shared<caf::typed_response_promise<msg::connected>>();
    made.handle = spawn([this, boss = master_, offer, made, then,
                         waits](msg::node_actor::pointer self) mutable -> msg::node_actor::behavior_type {
      offer.node = self;
      self->request(boss, caf::infinite, offer)
          .then(
              [self, made, then](msg::admitted& place) {
                made.place->value = std::move(place);
                if (then) then(self, made);
              },
              [made](const caf::error& error) { made.place->error = error; });
      return {[this](const msg::expect_peers& order) {
                tried_.push_back(order.save_folder);
                found_.push_back(std::filesystem::is_directory(order.save_folder));
                return msg::committed{};
              },
              [this, self, waits](msg::connect_peers&) -> caf::result<msg::connected> {
                if (links_) return *links_;
                *waits = self->make_response_promise<msg::connected>();
                return *waits;
              },
              [](msg::host_ranks&) {},
              [](msg::run_over&) {},
              [this](msg::actor_query&) {
                msg::actor_status now;
                now.step = newest_step_;
                return now;
              },
              [](msg::evidence_query&) { return msg::evidence{}; }};
    });
    run();
    return made;
  }

  /// Returns a deed that offers `what` to the master for rank 0.
  template <class Offer, class Handle>
  deed offer(Handle what) {
    return [boss = master_, what](msg::node_actor::pointer self, const fake_node& me) {
      self->request(boss, caf::infinite, Offer{{}, what, 0})
          .then([me](msg::joined& done) { me.filled->value = done; },
                [me](const caf::error& error) { me.filled->error = error; });
    };
  }

  deed offer_server() { return offer<msg::join_server>(spawn(parameter_server, std::uint64_t{1}, 0U)); }
  deed offer_trainer() { return offer<msg::join_trainer>(spawn(trainer, std::uint64_t{1}, 0U, 1U)); }

  /// A trainer that never ends.
  msg::trainer_actor endless_trainer() {
    const auto end = std::make_shared<caf::typed_response_promise<msg::trained>>();
    return spawn([end](msg::trainer_actor::pointer self) -> msg::trainer_actor::behavior_type {
      return {[end, self](const msg::train&) -> caf::result<msg::trained> {
                *end = self->make_response_promise<msg::trained>();
                return *end;
              },
              [](const msg::stop&) {}, [](const msg::trainer_ended&) {},
              [](const msg::actor_query&) { return msg::actor_status{}; }};
    });
  }

  void end(const fake_node& who) {
    caf::anon_send_exit(who.handle, caf::exit_reason::kill);
    run();
  }

  bool noted(const std::string& part) const {
    return std::ranges::any_of(notes_, [&](const auto& line) { return line.find(part) != std::string::npos; });
  }

  msg::master_actor master_;
  std::shared_ptr<outcome<msg::run_result>> answer_;
  std::vector<std::string> notes_;
  std::optional<msg::connected> links_;  ///< every node's answer; none until set
  std::uint64_t newest_step_ = 0;        ///< which every node reports
  std::optional<std::uint64_t> failed_in_;
  /// The folders in which nodes were asked to try to write, and whether each existed.
  std::vector<std::string> tried_;
  std::vector<bool> found_;
  std::uint64_t pids_ = 0;
};

TEST_F(Members, AProcessFillsThePlaceThatItWasGiven) {
  order();
  EXPECT_TRUE(join(false, offer_server()).filled->value);
  EXPECT_TRUE(noted("server 0 (host a, pid 1) has joined"));
}

TEST_F(Members, ARunThatStartsItsMembersTakesNobodyElse) {
  lead({}, true);
  order();
  const fake_node stranger = join(true);
  EXPECT_EQ(stranger.place->error, protocol::errc::bad_input);
  EXPECT_EQ(protocol::describe(stranger.place->error),
            "this run starts its members itself; use 'troupe master' for one that others may join");
  EXPECT_TRUE(join(true, {}, 1, 0).place->value);
}

TEST_F(Members, ATrainerCannotActAsAServer) {
  order();
  const fake_node alone = join(true, offer_server());
  ASSERT_TRUE(alone.place->value);
  EXPECT_EQ(alone.filled->error, protocol::errc::bad_input);
  EXPECT_EQ(protocol::describe(alone.filled->error), "server 0 was not given to this process");
}

TEST_F(Members, NobodyFillsAPlaceOfAnotherProcess) {
  order();
  ASSERT_TRUE(join(false).place->value);
  EXPECT_EQ(join(true, offer_server()).filled->error, protocol::errc::bad_input);
  const fake_node nobody;
  const auto answer = ask<msg::joined>(master_, msg::join_trainer{{}, spawn(trainer, std::uint64_t{1}, 0U, 1U), 0});
  run();
  EXPECT_EQ(answer->error, protocol::errc::bad_input);
}

TEST_F(Members, AProcessThatGoesBeforeTheRunLeavesItsPlace) {
  order();
  const fake_node first = join(true, offer_trainer());
  ASSERT_TRUE(first.filled->value);
  EXPECT_EQ(join(true).place->error, protocol::errc::bad_input);
  EXPECT_TRUE(
      noted("a trainer (host a, pid 2) was not accepted: 1 trainer offered: the job asks for 1, 1 have joined"));
  end(first);
  EXPECT_TRUE(noted("trainer 0 (host a, pid 1) has left: "));
  const fake_node second = join(true, offer_trainer());
  ASSERT_TRUE(second.filled->value);
  EXPECT_EQ(second.place->value->incarnation, 1u);
  EXPECT_TRUE(answer_->pending()) << "there is no server yet";
}

TEST_F(Members, TheWordAboutALostConnectionFreesThePlaceToo) {
  order();
  ASSERT_TRUE(join(true).place->value);
  caf::anon_send(master_, msg::node_lost{{}, "1", "no byte came for 4 s"});
  run();
  EXPECT_TRUE(noted("trainer 0 (host a, pid 1) has left: no byte came for 4 s"));
  EXPECT_TRUE(join(true).place->value);
}

// The run starts some time after the process joins, and an offer also takes time to arrive.
TEST_F(Members, AProcessThatGoesBeforeItIsAdmittedTakesNoPlace) {
  const fake_node early = join(true);
  EXPECT_TRUE(early.place->pending());
  end(early);
  order();
  EXPECT_TRUE(noted("trainer 0 (host a, pid 1) has left: "));
  EXPECT_TRUE(join(true).place->value);
}

TEST_F(Members, NobodyJoinsARunThatHasBegun) {
  order();
  join(false, offer_server());
  join(true, offer_trainer());
  const fake_node late = join(true);
  EXPECT_EQ(late.place->error, protocol::errc::wrong_context);
  EXPECT_NE(protocol::describe(late.place->error).find("the run has begun"), std::string::npos);
}

TEST_F(Members, TheDeathOfAProcessEndsTheRunWithWhatToDo) {
  order();
  join(false, offer_server());
  join(true, offer_trainer());
  caf::anon_send(master_, msg::node_lost{{}, "2", "its connection was closed"});
  run();
  EXPECT_EQ(answer_->error, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(answer_->error),
            "trainer 0 (host a, pid 2) died in step 0: its connection was closed; start anew");
}

TEST_F(Members, ALossAfterACheckpointIsOfNoEarlierStep) {
  order();
  join(false, offer_server());
  join(true, offer_trainer());
  msg::save_dense share;
  share.head.step = 30;
  ask<msg::committed>(master_, std::move(share));
  run();
  caf::anon_send(master_, msg::node_lost{{}, "2", "no byte came for 4 s"});
  run();
  EXPECT_EQ(protocol::describe(answer_->error),
            "trainer 0 (host a, pid 2) lost its connection in step 30: no byte came for 4 s; start anew");
}

TEST_F(Members, ALossIsOfTheNewestStepOfWhichTheOthersHaveHeard) {
  order();
  const auto server = spawn(parameter_server, std::uint64_t{1}, 0U);
  links_ = msg::connected{{}, {server}, spawn(allreduce_group, std::uint64_t{1}, group_layout::one_process(1, 0, 1))};
  newest_step_ = 151;
  join(false, offer<msg::join_server>(server));
  join(true, offer<msg::join_trainer>(endless_trainer()));
  ASSERT_TRUE(answer_->pending()) << protocol::describe(answer_->error);
  caf::anon_send(master_, msg::node_lost{{}, "2", "its connection was closed"});
  run();
  EXPECT_EQ(protocol::describe(answer_->error),
            "trainer 0 (host a, pid 2) died in step 151: its connection was closed; start anew");
  EXPECT_EQ(failed_in_, 151u) << "the next attempt says how many steps are lost";
}

TEST_F(Members, AProcessOfSeveralIsOneThingInWhatIsToldOfIt) {
  answer_ = ask<msg::run_result>(
      master_, troupe::msg::run{{}, {{"data", "tutorial"}, {"servers", "1"}, {"trainers", "2"}}, false});
  run();
  const fake_node both = join(true, {}, 2);
  ASSERT_TRUE(both.place->value);
  EXPECT_TRUE(noted("the process of trainers 0, 1 (host a, pid 1) has joined"));
  end(both);
  EXPECT_TRUE(noted("the process of trainers 0, 1 (host a, pid 1) has left: "));
}

TEST_F(Members, AProcessWithFewerLinksThanServersEndsTheRunWithTheReason) {
  order();
  links_ = msg::connected{};
  join(false, offer_server());
  join(true, offer_trainer());
  EXPECT_EQ(answer_->error, protocol::errc::malformed);
  EXPECT_EQ(protocol::describe(answer_->error),
            "trainer 0 (host a, pid 2) reports links to 0 servers and no group, the run has 1");
}

TEST_F(Members, TheLossOfSomebodyBeforeTheRunIsToldWithWhatToDo) {
  order();
  caf::anon_send(master_, msg::give_up{{}, "server 0 (pid 7) was ended by signal 9"});
  run();
  EXPECT_EQ(protocol::describe(answer_->error),
            "server 0 (pid 7) was ended by signal 9; the run had not begun, so start it anew");
}

TEST_F(Members, ARunThatSavesShowsItsProcessesAFolderToTry) {
  const model::checkpoint_folder folder;
  auto store = model::checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(store) << store.error().message;
  lead({.store = std::make_shared<model::checkpoint_store>(std::move(*store)), .every = 0, .from = nullptr});
  order();
  join(false, offer_server());
  join(true, offer_trainer());
  ASSERT_EQ(tried_.size(), 2u);
  EXPECT_EQ(tried_[0].find(std::filesystem::absolute(folder.path()).string() + "/"), 0u) << tried_[0];
  EXPECT_EQ(found_, (std::vector<bool>{true, true}));
  EXPECT_FALSE(std::filesystem::exists(tried_[0])) << "nothing of it stays";
}

TEST_F(Members, ARunThatSavesNothingHasNothingTried) {
  order();
  join(false, offer_server());
  join(true, offer_trainer());
  EXPECT_EQ(tried_, (std::vector<std::string>{"", ""}));
}

}  // namespace
}  // namespace troupe::actors::members_test
