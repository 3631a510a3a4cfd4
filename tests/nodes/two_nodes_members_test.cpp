// The master in one process and a node's actor in the other: joining, errors and the end of a run over CAF's network,
// and what both do when the connection is lost.

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "actors/master/master.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/trainer/job_trainer.hpp"
#include "cluster/nodes/data_plane.hpp"
#include "cluster/nodes/node_actor.hpp"
#include "tests/nodes/two_nodes.hpp"

namespace troupe::nodes::two_nodes_members_test {
namespace {

constexpr std::chrono::seconds timeout(60);

class TwoNodesMembers : public TwoNodes {
 protected:
  /// A real node, as in a process of its own. Its data plane neither listens nor dials.
  struct real_node {
    std::shared_ptr<master_watch> watch = std::make_shared<master_watch>();
    std::shared_ptr<data_plane> data;
    std::optional<result<void>> outcome;
    std::vector<std::string> notes;
    actors::compute_devices devices;  ///< of the node's actor system
    msg::node_actor handle;
  };

  /// A node with a trainer whose links never become ready.
  struct plain_node {
    std::optional<msg::admitted> place;
    caf::error refusal;
    std::vector<msg::peer_node> peers;
    std::optional<msg::run_over> end;
    caf::typed_response_promise<msg::connected> waits;
    msg::node_actor handle;
  };

  TwoNodesMembers() {
    actors::run_observer observer;
    observer.on_note = [this](const std::string& line) { notes_.push_back(line); };
    master_ = here_.spawn(
        actors::master, std::uint64_t{7}, std::move(observer), actors::run_checkpoints{},
        std::optional<actors::node_rules>(actors::node_rules{
            timeout, "start anew", false, [](const std::string& session) { return "certificate of " + session; }}),
        actors::plan_job);
    master_there_ = across(master_);
  }

  ~TwoNodesMembers() override {
    for (const auto& one : nodes_) caf::anon_send(one->handle, msg::run_over{{}, true, ""});
    run();
  }

  /// Requests a run with one server and one trainer.
  void order() {
    answer_ = here_.ask<msg::run_result>(
        master_, troupe::msg::run{{}, {{"data", "tutorial"}, {"servers", "1"}, {"trainers", "1"}}, false});
    run();
  }

  /// Adds a process that offers servers, with `change` applied to its options.
  std::shared_ptr<real_node> join_with_server(const std::function<void(node_options&)>& change = {}) {
    const auto& made = nodes_.emplace_back(std::make_shared<real_node>());
    node_options options;
    options.master = {"here", 7000};
    options.network.request_timeout = timeout;
    options.on_note = [made = made.get()](const std::string& line) { made->notes.push_back(line); };
    if (change) change(options);
    made->data = std::make_shared<data_plane>(there_.system(), data_plane::options{});
    made->handle = there_.spawn(node, node_state::dependencies{master_there_, made->watch, made->data.get(), options,
                                                               "session", links::endpoint{"there", 7001},
                                                               [made = made.get()](node_end how) {
                                                                 EXPECT_FALSE(made->outcome);
                                                                 made->outcome = std::move(how.how);
                                                               },
                                                               &made->devices});
    run();
    return made;
  }

  /// Adds a process that offers a trainer.
  std::shared_ptr<plain_node> join_with_trainer(actors::staged_system& where, const std::string& name = "") {
    auto made = std::make_shared<plain_node>();
    const auto boss = &where == &there_ ? master_there_ : master_;
    const auto work = where.spawn(actors::trainer, std::uint64_t{7}, 0U, 1U);
    made->handle = where.spawn([=](msg::node_actor::pointer self) -> msg::node_actor::behavior_type {
      const msg::join_node offer{{}, true, 1, msg::any_rank, name, "b", 18, "b:7002", "other session", {}, self};
      self->request(boss, caf::infinite, offer)
          .then(
              [=](msg::admitted& place) {
                made->place = std::move(place);
                self->request(boss, caf::infinite, msg::join_trainer{{}, work, 0}).then([](const msg::joined&) {});
              },
              [=](const caf::error& error) { made->refusal = error; });
      return {[=](msg::expect_peers& asked) {
                made->peers = std::move(asked.peers);
                return msg::committed{};
              },
              [=](msg::connect_peers&) -> caf::result<msg::connected> {
                made->waits = self->make_response_promise<msg::connected>();
                return made->waits;
              },
              [](msg::host_ranks&) {},
              [=](msg::run_over& word) { made->end = std::move(word); },
              [](msg::actor_query&) { return msg::actor_status{}; },
              [](msg::evidence_query&) { return msg::evidence{}; }};
    });
    run();
    return made;
  }

  void pass(caf::timespan time, actors::staged_system& where) {
    where.scheduler().advance_time(time);
    run();
  }

  /// Returns the master's name for this process.
  static std::string me(const std::string& what) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    return fmt::format("{} (host {}, pid {})", what, host.data(), ::getpid());
  }

  bool noted(const std::string& line) const { return std::ranges::find(notes_, line) != notes_.end(); }

  msg::master_actor master_;
  msg::master_actor master_there_;  ///< its handle there
  std::shared_ptr<actors::outcome<msg::run_result>> answer_;
  std::vector<std::string> notes_;
  std::vector<std::shared_ptr<real_node>> nodes_;
};

// -- joining --------------------------------------------------------------------------

TEST_F(TwoNodesMembers, ANodeJoinsAndAllAreToldWhomToExpect) {
  order();
  const auto server = join_with_server();
  EXPECT_TRUE(noted(me("server 0") + " has joined"));
  EXPECT_EQ(server->notes, std::vector<std::string>{"joined as server 0; waiting for the others"});
  const auto one = join_with_trainer(there_);
  ASSERT_TRUE(one->place);
  EXPECT_EQ(one->place->run, 7u);
  EXPECT_EQ(one->place->node, 1u);
  EXPECT_EQ(one->place->incarnation, 0u);
  EXPECT_EQ(one->place->ranks, std::vector<std::uint32_t>{0});
  EXPECT_EQ(one->place->servers, 1u);
  EXPECT_EQ(one->place->resume, "start anew");

  ASSERT_EQ(one->peers.size(), 2u);
  EXPECT_EQ(one->peers[0].node, 0u);
  EXPECT_EQ(one->peers[0].name, me("server 0"));
  EXPECT_FALSE(one->peers[0].trains);
  EXPECT_EQ(one->peers[0].ranks, std::vector<std::uint32_t>{0});
  EXPECT_EQ(one->peers[0].address, "there:7001");
  EXPECT_EQ(one->peers[1].node, 1u);
  EXPECT_EQ(one->peers[1].name, "trainer 0 (host b, pid 18)");
  EXPECT_TRUE(one->peers[1].trains);
  EXPECT_EQ(one->peers[1].address, "b:7002");
  EXPECT_EQ(one->peers[0].certificate, "certificate of session");
  EXPECT_EQ(one->peers[1].certificate, "certificate of other session");
  EXPECT_TRUE(one->waits.pending()) << "it has been told to make its links";
  EXPECT_TRUE(answer_->pending());
}

TEST_F(TwoNodesMembers, DevicesThatNobodyHasChosenFollowTheMastersJob) {
  actors::compute_devices one;
  one.numbers = {0};
  one.trainers = one.servers = one.trainers_by_default = one.servers_by_default = true;
  order();  // requests the tutorial, whose steps are small
  const auto server = join_with_server([&](node_options& options) { options.devices = one; });
  EXPECT_TRUE(server->devices.trainers_by_default) << "its actor system has not been told";
  EXPECT_FALSE(server->devices.servers);
  ASSERT_EQ(server->notes.size(), 1u);
  const std::string begin = "joined as server 0 on the processor, as of --device auto: under 0.1 million ";
  EXPECT_EQ(server->notes.front().find(begin), 0u) << server->notes.front();
}

TEST_F(TwoNodesMembers, AnOfferThatCameBeforeTheOrderIsAnsweredWhenTheRunIsKnown) {
  const auto server = join_with_server();
  EXPECT_TRUE(server->notes.empty());
  order();
  EXPECT_TRUE(noted(me("server 0") + " has joined"));
  EXPECT_EQ(server->notes.size(), 1u);
  EXPECT_FALSE(server->outcome);
}

TEST_F(TwoNodesMembers, ANodeThatIsRefusedIsToldWhyWordForWord) {
  order();
  join_with_trainer(here_, "taken");
  const auto why = [this](const std::function<void(node_options&)>& change) {
    const auto refused = join_with_server(change);
    EXPECT_TRUE(refused->outcome && !*refused->outcome);
    const fault told = refused->outcome->error();
    EXPECT_EQ(told.kind, fault_kind::input);
    return told.message;
  };
  EXPECT_EQ(why([](node_options& offer) { offer.name = "taken"; }),
            "--name taken: is taken by trainer 0 (host b, pid 18); choose another");
  EXPECT_EQ(why([](node_options& offer) { offer.rank = 1; }), "server 1 is taken, or the job has no such rank");
  EXPECT_EQ(why([](node_options& offer) { offer.count = 3; }), "3 servers offered: the job asks for 1, 0 have joined");
  EXPECT_EQ(why([](node_options& offer) { offer.count = 0; }), "0 servers offered: the job asks for 1, 0 have joined");
  EXPECT_EQ(why([](node_options& offer) { offer.expected_job = std::vector{model::setting("seed", "77")}; }),
            "the job differs from the master's: --seed is 77 there and 1 at the master");
  EXPECT_TRUE(answer_->pending()) << "no refused process does harm";
}

TEST_F(TwoNodesMembers, NobodyFillsAPlaceOfAnotherNodeFromAfar) {
  order();
  join_with_server();
  const auto answer = there_.ask<msg::joined>(
      master_there_, msg::join_server{{}, there_.spawn(actors::parameter_server, std::uint64_t{7}, 0U), 0});
  run();
  EXPECT_EQ(answer->error, protocol::errc::bad_input);
  EXPECT_EQ(protocol::describe(answer->error), "server 0 was not given to this process");
}

TEST_F(TwoNodesMembers, EveryoneIsToldHowTheRunHasEnded) {
  order();
  const auto server = join_with_server();
  const auto one = join_with_trainer(there_);
  caf::anon_send(master_there_, msg::node_lost{{}, "other session", "it was unplugged"});
  run();
  const std::string line = "trainer 0 (host b, pid 18) lost its connection in step 0: it was unplugged; start anew";
  EXPECT_EQ(answer_->error, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(answer_->error), line);
  ASSERT_TRUE(server->outcome && !*server->outcome);
  EXPECT_EQ(server->outcome->error().message, line);
  ASSERT_TRUE(one->end);
  EXPECT_FALSE(one->end->done);
  EXPECT_EQ(one->end->words, line);
}

TEST_F(TwoNodesMembers, ANodeThatDoesNotAnswerInTimeEndsTheRun) {
  order();
  const auto server = join_with_server();
  join_with_trainer(there_);
  pass(timeout - std::chrono::seconds(1), here_);
  EXPECT_TRUE(answer_->pending());
  pass(std::chrono::seconds(1), here_);
  EXPECT_EQ(answer_->error, protocol::errc::timeout);
  const std::string end = ", step 0: did not answer connect_peers within 60 s; --request-timeout allows more";
  EXPECT_EQ(protocol::describe(answer_->error), me("server 0") + end);
  ASSERT_TRUE(server->outcome && !*server->outcome);
  EXPECT_EQ(server->outcome->error().message, me("server 0") + end);
}

// -- lost connections -------------------------------------------------------------------

TEST_F(TwoNodesMembers, ANodeThatIsLostBeforeTheRunLeavesItsPlace) {
  order();
  join_with_server();
  cut();
  run();
  EXPECT_TRUE(noted(me("server 0") + " has left: it has ended"));
  EXPECT_TRUE(answer_->pending());
  const auto again = here_.ask<msg::admitted>(
      master_, msg::join_node{{}, false, 1, 0, "", "c", 19, "", "third", {}, join_with_trainer(here_)->handle});
  run();
  ASSERT_TRUE(again->value) << protocol::describe(again->error);
  EXPECT_EQ(again->value->incarnation, 1u);
}

// The tunnel, if there is one, reports the reason.
TEST_F(TwoNodesMembers, ANodeThatIsLostInTheRunEndsItWithTheTunnelsWord) {
  order();
  join_with_server();
  const auto one = join_with_trainer(here_);
  cut();
  run();
  EXPECT_TRUE(answer_->pending()) << "a better reason is waited for";
  caf::anon_send(master_, msg::node_lost{{}, "session", "no byte came for 4 s"});
  run();
  const std::string line = me("server 0") + " lost its connection in step 0: no byte came for 4 s; start anew";
  EXPECT_EQ(answer_->error, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(answer_->error), line);
  ASSERT_TRUE(one->end);
  EXPECT_EQ(one->end->words, line);
}

TEST_F(TwoNodesMembers, ANodeThatIsLostInTheRunEndsItWithoutAnyWordToo) {
  order();
  join_with_server();
  join_with_trainer(here_);
  cut();
  run();
  pass(std::chrono::seconds(1), here_);
  EXPECT_EQ(answer_->error, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(answer_->error), me("server 0") + ", step 0: its connection was lost");
}

TEST_F(TwoNodesMembers, ANodeThatHasLostItsMasterEndsAndSaysSo) {
  order();
  const auto server = join_with_server();
  cut();
  server->watch->lost({"its connection was closed"});
  run();
  ASSERT_TRUE(server->outcome && !*server->outcome);
  EXPECT_EQ(server->outcome->error().message, "the master (here:7000) is gone: its connection was closed; start anew");
}

TEST_F(TwoNodesMembers, AnOfferThatIsUnderWayWhenTheConnectionIsLostFailsAtItsDeadline) {
  const auto server = join_with_server();
  cut();
  run();
  pass(timeout - std::chrono::seconds(1), there_);
  EXPECT_FALSE(server->outcome);
  pass(std::chrono::seconds(1), there_);
  ASSERT_TRUE(server->outcome && !*server->outcome);
  EXPECT_EQ(server->outcome->error().message,
            "the master (here:7000) did not answer join_node within 60 s; --request-timeout allows more");
}

TEST_F(TwoNodesMembers, NobodyWaitsForEverForAnAnswerFromANodeThatIsLost) {
  const auto server = there_.spawn(actors::parameter_server, std::uint64_t{7}, 0U);
  const auto known_here = across(server);
  const auto reason = here_.watch(known_here);
  run();
  const auto asked = here_.ask<msg::parameter_list>(known_here, msg::parameters{{}, 4}, timeout);
  here_.run();  // passes it to CAF's network
  cut();
  run();
  ASSERT_TRUE(*reason);
  EXPECT_EQ(**reason, caf::exit_reason::remote_link_unreachable);
  EXPECT_TRUE(protocol::is_secondary(**reason));
  const auto late = here_.ask<msg::parameter_list>(known_here, msg::parameters{{}, 4}, timeout);
  run();
  pass(timeout, here_);
  EXPECT_FALSE(asked->pending());
  EXPECT_EQ(asked->error, caf::sec::request_timeout);
  EXPECT_EQ(late->error, caf::sec::request_timeout);
}

}  // namespace
}  // namespace troupe::nodes::two_nodes_members_test
