// The members of a run and the meaning of a loss, with the membership alone: actors serve only as names.

#include "actors/master/membership.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "actors/common/actor_name.hpp"
#include "tests/actors/master_parts.hpp"

namespace troupe::actors::membership_test {
namespace {

using kind = verdict::kind;

class Membership : public master_parts_stage {
 protected:
  /// Members come from other processes to a run with one server and two trainers.
  void gather() {
    all_.start(node_rules{std::chrono::seconds(2), "start anew", false, {}},
               [this](const std::string& line) { notes_.push_back(line); });
    all_.open(1, 2, 1, 1, model::to_settings(job_for(1, 2)));
  }

  /// Returns the answer to an offer of this process.
  caf::expected<msg::peer_node> come(const msg::node_actor& who, bool trains, const std::string& session,
                                     const std::string& host = "a", std::uint32_t count = 1) {
    msg::join_node offer;
    offer.trains = trains;
    offer.host = host;
    offer.count = count;
    offer.pid = ++pids_;
    offer.session = session;
    offer.node = who;
    return all_.join(offer, 0);
  }

  /// A server and two trainers, each in its own process, in a run that has begun.
  void begin() {
    gather();
    for (const bool trains : {false, true, true}) {
      nodes_.push_back(dummy<msg::node_actor>());
      ASSERT_TRUE(come(nodes_.back(), trains, std::to_string(nodes_.size())));
    }
    ASSERT_TRUE(all_.join(msg::join_server{{}, server_, 0}, as_sender(nodes_[0])));
    for (const std::uint32_t rank : {0U, 1U})
      ASSERT_TRUE(all_.join(msg::join_trainer{{}, trainers_[rank], rank}, as_sender(nodes_[rank + 1])));
    all_.close();
  }

  template <class Handle>
  static caf::strong_actor_ptr as_sender(const Handle& who) {
    return caf::actor_cast<caf::strong_actor_ptr>(who);
  }

  template <class Handle>
  verdict ends(const Handle& who, caf::error why) {
    return all_.assess(caf::down_msg{who.address(), std::move(why)}, 7);
  }

  membership all_;
  std::vector<std::string> notes_;
  std::uint64_t pids_ = 0;
  msg::parameter_server_actor server_ = dummy<msg::parameter_server_actor>();
  std::vector<msg::trainer_actor> trainers_ = {dummy<msg::trainer_actor>(), dummy<msg::trainer_actor>()};
  std::vector<msg::node_actor> nodes_;
};

/// Two replicas of two stages with two slices each; trainers join from alternating hosts.
TEST_F(Membership, SlicesOfAStageAreOnOneHost) {
  all_.start(node_rules{std::chrono::seconds(2), "", false, {}},
             [this](const std::string& line) { notes_.push_back(line); });
  all_.open(0, 8, 4, 2, {});
  using ranks = std::vector<std::uint32_t>;
  const auto ranks_of = [this](const std::string& host, std::uint32_t count) {
    nodes_.push_back(dummy<msg::node_actor>());
    const auto place = come(nodes_.back(), true, std::to_string(nodes_.size()), host, count);
    return place ? place->ranks : ranks();
  };
  EXPECT_EQ(ranks_of("a", 1), ranks{0});
  EXPECT_EQ(ranks_of("b", 1), ranks{2}) << "rank 1 belongs beside rank 0";
  EXPECT_EQ(ranks_of("b", 2), (ranks{3, 4}));
  EXPECT_EQ(ranks_of("c", 1), ranks{6});
  EXPECT_EQ(ranks_of("a", 1), ranks{1});
  EXPECT_EQ(ranks_of("c", 1), ranks{7});
  EXPECT_EQ(ranks_of("c", 1), ranks{5}) << "nothing else is left";
  all_.close();
  EXPECT_EQ(
      notes_.back(),
      "trainers 4 to 5 share layers (--tensor-parallel 2) and are on hosts b, c: every pass waits for the network "
      "between them");
}

TEST_F(Membership, LostSlicesAreHostedBesideTheOthers) {
  all_.start(node_rules{std::chrono::seconds(2), "", false, {}}, nullptr);
  all_.open(0, 8, 2, 2, {});
  // The stages are (0, 1), (2, 3), (4, 5) and (6, 7). Ranks 0 and 7 are on host b, rank 2 is on host a.
  std::vector<std::uint32_t> numbers;
  for (const auto& [rank, host] : std::vector<std::pair<std::uint32_t, std::string>>{{2, "a"}, {0, "b"}, {7, "b"}}) {
    nodes_.push_back(dummy<msg::node_actor>());
    msg::join_node offer;
    offer.trains = true;
    offer.rank = rank;
    offer.host = host;
    offer.pid = rank;
    offer.session = std::to_string(rank);
    offer.node = nodes_.back();
    const auto place = all_.join(offer, 0);
    ASSERT_TRUE(place);
    numbers.push_back(place->node);
  }
  const auto given = all_.rehost();
  ASSERT_TRUE(given);
  const std::map<std::uint32_t, std::vector<std::uint32_t>> expected = {
      {numbers[0], {3}}, {numbers[1], {1, 6}}, {numbers[2], {4, 5}}};
  EXPECT_EQ(*given, expected) << "4 and 5, without neighbors, stay together";
}

TEST_F(Membership, MembersInThisProcessGetTheRanksInTheOrderOfTheirComing) {
  all_.start(std::nullopt, nullptr);
  EXPECT_EQ(*all_.join(msg::join_trainer{{}, trainers_[1]}, nullptr), 0u);
  EXPECT_EQ(*all_.join(msg::join_trainer{{}, trainers_[0]}, nullptr), 1u);
  EXPECT_EQ(protocol::describe(all_.check(1, 2)), "0 servers and 2 trainers have joined, the job asks for 1 and 2");
  EXPECT_FALSE(all_.check(0, 2));
  EXPECT_EQ(*all_.join(msg::join_server{{}, server_}, nullptr), 0u);
  all_.open(1, 2, 1, 1, model::to_settings(job_for(1, 2)));
  EXPECT_TRUE(all_.complete());
  all_.close();
  EXPECT_EQ(protocol::describe(all_.join(msg::join_server{{}, server_}, nullptr).error()),
            "the run has begun: no server can join any more");
  EXPECT_EQ(all_.number_of(server_.address()), server_number(0));
  EXPECT_EQ(all_.number_of(trainers_[0].address()), trainer_number(1, 1));
  EXPECT_EQ(all_.who_is(trainers_[0].address()), "trainer 1");
}

TEST_F(Membership, ItIsCompleteWhenEveryPlaceIsFilledByWhomItWasGivenTo) {
  gather();
  const auto home = dummy<msg::node_actor>();
  ASSERT_TRUE(come(home, true, "1"));
  EXPECT_EQ(all_.join(msg::join_trainer{{}, trainers_[0], 0}, nullptr).error(), protocol::errc::bad_input);
  EXPECT_EQ(all_.join(msg::join_trainer{{}, trainers_[0], 1}, as_sender(home)).error(), protocol::errc::bad_input);
  EXPECT_EQ(*all_.join(msg::join_trainer{{}, trainers_[0], 0}, as_sender(home)), 0u);
  const auto others = dummy<msg::node_actor>();
  ASSERT_TRUE(come(others, true, "2"));
  ASSERT_TRUE(all_.join(msg::join_trainer{{}, trainers_[1], 1}, as_sender(others)));
  const auto last = dummy<msg::node_actor>();
  ASSERT_TRUE(come(last, false, "3"));
  EXPECT_FALSE(all_.complete()) << "the server itself has not come";
  ASSERT_TRUE(all_.join(msg::join_server{{}, server_, 0}, as_sender(last)));
  EXPECT_TRUE(all_.complete());
}

TEST_F(Membership, ALossBeforeTheRunFreesThePlacesOnce) {
  gather();
  const auto first = dummy<msg::node_actor>();
  ASSERT_TRUE(come(first, true, "1"));
  ASSERT_TRUE(all_.join(msg::join_trainer{{}, trainers_[0], 0}, as_sender(first)));
  EXPECT_EQ(all_.assess(msg::node_lost{{}, "1", "it was unplugged"}, 0, {}).what, kind::harmless);
  EXPECT_EQ(ends(first, caf::exit_reason::remote_link_unreachable).what, kind::harmless);
  EXPECT_EQ(ends(trainers_[0], caf::exit_reason::remote_link_unreachable).what, kind::harmless);
  EXPECT_EQ(notes_, (std::vector<std::string>{"trainer 0 (host a, pid 1) has joined",
                                              "trainer 0 (host a, pid 1) has left: it was unplugged"}));
  EXPECT_TRUE(all_.trainers()[0] == nullptr);
  EXPECT_TRUE(all_.nodes().empty());
  const auto second = come(dummy<msg::node_actor>(), true, "2");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->ranks, std::vector<std::uint32_t>{0});
  EXPECT_EQ(second->incarnation, 1u);
  EXPECT_EQ(second->node, 1u) << "no two processes have one number";
}

TEST_F(Membership, AConnectionThatNobodyHadJoinedByIsNotedIfItBroke) {
  gather();
  EXPECT_EQ(all_.assess(msg::node_lost{{}, "unknown", "reset"}, 0, {}).what, kind::harmless);
  EXPECT_EQ(all_.assess(msg::node_lost{{}, "unknown", ""}, 0, {}).what, kind::harmless);
  EXPECT_EQ(notes_, std::vector<std::string>{"a process that had not joined is gone: reset"});
}

TEST_F(Membership, AConnectionThatIsLostInTheRunIsFatal) {
  begin();
  const verdict found = all_.assess(msg::node_lost{{}, "2", "no byte came for 4 s"}, 7, {});
  EXPECT_EQ(found.what, kind::fatal);
  EXPECT_EQ(found.why, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(found.why),
            "trainer 0 (host a, pid 2) lost its connection in step 7: no byte came for 4 s; start anew");
}

TEST_F(Membership, AConnectionThatIsLostByAStopOfThisProcessIsToldAsThat) {
  begin();
  const verdict found = all_.assess(msg::node_lost{{}, "2", "its connection was closed"}, 7, std::chrono::seconds(5));
  EXPECT_EQ(found.what, kind::fatal);
  EXPECT_EQ(
      protocol::describe(found.why),
      fmt::format("the process that leads the run (pid {}) was stopped for 5.0 s in step 7, and its members left it; "
                  "a longer --dead-after lets them wait; start anew",
                  ::getpid()));
}

TEST_F(Membership, AnActorThatEndsInTheRunIsFatalWithItsOwnWordsAndDoubtfulWithout) {
  begin();
  const verdict told = ends(server_, protocol::make_failure(protocol::errc::not_finite, "server 0, step 7: it is NaN"));
  EXPECT_EQ(told.what, kind::fatal);
  EXPECT_EQ(protocol::describe(told.why), "server 0, step 7: it is NaN");
  const verdict lost = ends(trainers_[1], caf::exit_reason::remote_link_unreachable);
  EXPECT_EQ(lost.what, kind::doubtful);
  EXPECT_EQ(protocol::describe(lost.why), "trainer 1 (host a, pid 3), step 7: its connection was lost");
  const verdict of_another =
      ends(trainers_[1], protocol::make_failure(protocol::errc::peer_failed, "trainer 1: server 0 is gone"));
  EXPECT_EQ(of_another.what, kind::doubtful);
  EXPECT_EQ(protocol::describe(of_another.why), "trainer 1: server 0 is gone");
  EXPECT_EQ(ends(nodes_[1], caf::exit_reason::kill).what, kind::harmless) << "its connection says more";
}

/// A trainer's work may break a device, and a group that checks its sums, or a server, may be the first to notice.
TEST_F(Membership, AFailedDeviceIsReportedByTheTrainerThatUsesItIfThatCan) {
  begin();
  const auto failed = [](const char* who) {
    return protocol::make_failure(protocol::errc::device_failed, fmt::format("{}, step 7: CUDA device 1: lost", who));
  };
  const auto group = dummy<msg::allreduce_actor>();
  all_.set_groups({group});
  const verdict seen = ends(group, failed("allreduce"));
  EXPECT_EQ(seen.what, kind::doubtful);
  EXPECT_EQ(seen.why, protocol::errc::device_failed) << "what is reported if no trainer does";
  EXPECT_EQ(protocol::describe(seen.why), "allreduce, step 7: CUDA device 1: lost");
  EXPECT_EQ(ends(server_, failed("server 0")).what, kind::doubtful);
  EXPECT_EQ(ends(trainers_[1], failed("trainer 1")).what, kind::fatal);
}

TEST_F(Membership, ABrokenDataLinkIsDoubtfulInTheRunAndNothingBefore) {
  gather();
  EXPECT_EQ(all_.assess(msg::link_lost{{}, 0, 1, "reset"}, 0).what, kind::harmless);
  all_ = {};
  pids_ = 0;
  begin();
  const verdict found = all_.assess(msg::link_lost{{}, 0, 9, "reset"}, 7);
  EXPECT_EQ(found.what, kind::doubtful);
  EXPECT_EQ(protocol::describe(found.why),
            "the data link between server 0 (host a, pid 1) and node 9 is gone in step 7: reset; start anew");
}

TEST_F(Membership, AQuestionWithoutAnswerIsJudgedByWhatCameInstead) {
  begin();
  const auto judged = [this](const caf::error& error) {
    return all_.assess(error, server_.address(), caf::type_name_v<msg::instantiate>, 7);
  };
  EXPECT_EQ(judged(caf::sec::request_timeout).what, kind::fatal);
  EXPECT_EQ(protocol::describe(judged(caf::sec::request_timeout).why),
            "server 0 (host a, pid 1), step 7: did not answer instantiate within 2 s; --request-timeout allows more");
  EXPECT_EQ(judged(protocol::make_failure(protocol::errc::out_of_memory, "server 0")).what, kind::fatal);
  EXPECT_EQ(judged(protocol::make_failure(protocol::errc::peer_failed, "server 0: another is gone")).what,
            kind::doubtful);
  EXPECT_EQ(judged(caf::sec::request_receiver_down).what, kind::harmless) << "its death says more";
}

TEST_F(Membership, ATrainerTakesWhatStandsForTheServersInItsProcess) {
  begin();
  msg::connected links;
  links.servers = {dummy<msg::parameter_server_actor>()};
  links.group = dummy<msg::allreduce_actor>();
  links.group_number = group_sender(1);
  msg::module_ref shard;
  shard.server = server_;
  ASSERT_FALSE(all_.linked(1, links));
  EXPECT_EQ(all_.as_seen_by(0, {{shard}})[0][0].server, links.servers[0]);
  EXPECT_EQ(all_.group_of(0).group, links.group);
  EXPECT_EQ(all_.group_of(0).number, group_sender(1));
  EXPECT_EQ(all_.who_is(links.group.address()), "allreduce of trainer 0 (host a, pid 2)");
  links.servers.clear();
  EXPECT_EQ(protocol::describe(all_.linked(2, links)),
            "trainer 1 (host a, pid 3) reports links to 0 servers, the run has 1");
}

TEST(MembershipState, ARunThatIsNotKnownCannotBeginAndOneBeginsOnce) {
  membership all;
  all.start(std::nullopt, nullptr);
  EXPECT_DEATH(all.close(), "assertion failed");
  all.open(0, 0, 1, 1, {});
  EXPECT_DEATH(all.open(0, 0, 1, 1, {}), "assertion failed");
  all.close();
  EXPECT_DEATH(all.close(), "assertion failed");
}

}  // namespace
}  // namespace troupe::actors::membership_test
