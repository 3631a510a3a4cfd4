// Trainers in two processes: collectives give the same bits as in one process, in any message order.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/library/arguments.hpp"
#include "tests/library/places.hpp"
#include "tests/nodes/two_nodes.hpp"
#include "troupe/runtime/trainer_runtime.hpp"
#include "troupe/troupe.hpp"

namespace troupe::group_nodes_test {
namespace {

using bits = std::vector<std::vector<std::byte>>;  ///< by rank: all results

tensor numbers_of(std::uint32_t rank, const shape& lengths, dtype type) {
  tensor made(lengths, type);
  for (std::size_t i = 0; i < made.count(); ++i) {
    const double x = std::sin(static_cast<double>(i * 3 + rank)) * std::pow(10.0, (i + rank) % 7);
    if (type == dtype::f32) made.as<float>()[i] = static_cast<float>(x);
    if (type == dtype::f64) made.as<double>()[i] = x;
    if (type == dtype::i64) made.as<std::int64_t>()[i] = static_cast<std::int64_t>(x);
  }
  return made;
}

void add(std::vector<std::byte>& to, const tensor& x) {
  const std::byte* const first = x.owner().get();
  to.insert(to.end(), first, first + x.count() * size_of(x.type()));
}

task<> do_all(trainer me, bits* results) {
  std::vector<std::byte>& mine = (*results)[me.rank()];
  const group all = me.group();
  const group some = me.rank() == 1 ? all.subgroup({1}) : all.subgroup({2, 0});
  for (const std::size_t rows : {0, 1, 7, 3'001})
    for (const dtype type : {dtype::f32, dtype::f64, dtype::i64}) {
      const tensor x = numbers_of(me.rank(), {rows * 3, 2}, type);
      auto coming = some.all_reduce(x);
      for (const reduce_op how : {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max}) {
        if (how == reduce_op::mean && type == dtype::i64) continue;
        add(mine, co_await all.all_reduce(x, how));
        add(mine, co_await all.reduce_scatter(x, how));
      }
      for (const tensor& one : co_await all.all_gather(x)) add(mine, one);
      for (std::uint32_t root = 0; root < 3; ++root) {
        for (const tensor& one : co_await all.gather(x, root)) add(mine, one);
        add(mine, co_await all.broadcast(x, root));
        const std::vector<tensor> parts = {x, numbers_of(9, {rows}, type), x};
        add(mine, co_await all.scatter(parts, root));
      }
      all.send(x, (me.rank() + 1) % 3, 4);
      add(mine, co_await all.recv((me.rank() + 2) % 3, 4));
      add(mine, co_await std::move(coming));
      co_await all.barrier();
    }
}

bits in_one_process() {
  bits results(3);
  test::arguments given{};
  cluster cluster(given.count(), given.values());
  cluster.run(3, do_all, &results);
  return results;
}

/// Must precede every actor system.
struct network_types {
  network_types() { nodes::initialize_network_types(); }
};

/// Trainers 0 and 1 run here and 2 there; if `turned`, 0 runs there, and 1 and 2 here.
class GroupOnTwoNodes : network_types, public nodes::TwoNodes {
 protected:
  void start(const runtime::trainer_function& function, bool turned = false) {
    std::vector<actors::made_trainer> made;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const bool is_there = rank == (turned ? 0U : 2U);
      made.push_back(runtime::make_trainer((is_there ? there_ : here_).system(), 1, rank, 1, function));
      trainers_.push_back(made.back().actor);
    }
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      actors::trainer_peers peers{std::vector<msg::peer_actor>(3), std::vector<caf::actor_addr>(3)};
      for (std::uint32_t other = 0; other < 3; ++other) {
        if (other == rank) continue;
        const auto peer = caf::actor_cast<msg::peer_actor>(trainers_[other]);
        peers.of_rank[other] = peer.node() == trainers_[rank].node() ? peer : across(peer);
      }
      made[rank].send_peers(std::move(peers));
    }
    run();
    msg::train order;
    order.trainers = 3;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      actors::staged_system& where = trainers_[rank].node() == here_.system().node() ? here_ : there_;
      ends_.push_back(where.watch(trainers_[rank]));
      answers_.push_back(where.ask<msg::trained>(trainers_[rank], order));
    }
  }

  /// Advances both schedulers' time.
  void pass(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds turn(250);
    for (auto passed = turn; passed <= time; passed += turn) {
      for (actors::staged_system* where : {&here_, &there_}) where->scheduler().advance_time(turn);
      run();
    }
  }

  ~GroupOnTwoNodes() override {
    for (const auto& one : trainers_) caf::anon_send_exit(one, caf::exit_reason::kill);
    run();
  }

  bool all_have_ended() const {
    return std::ranges::all_of(answers_, [](const auto& one) { return one->value.has_value(); });
  }

  std::vector<msg::trainer_actor> trainers_;
  std::vector<std::shared_ptr<actors::outcome<msg::trained>>> answers_;
  std::vector<std::shared_ptr<std::optional<caf::error>>> ends_;
};

TEST_F(GroupOnTwoNodes, HasTheBitsOfOneProcess) {
  const bits expected = in_one_process();
  ASSERT_GT(expected[0].size(), 100'000U);
  bits results(3);
  start([&results](trainer me) { return do_all(me, &results); });
  run();
  EXPECT_TRUE(all_have_ended());
  EXPECT_TRUE(results == expected);
}

TEST_F(GroupOnTwoNodes, HasTheBitsOfOneProcessInAnyOrderOfMessages) {
  const bits expected = in_one_process();
  bits results(3);
  start([&results](trainer me) { return do_all(me, &results); }, true);
  run_shuffled(7);
  EXPECT_TRUE(all_have_ended());
  EXPECT_TRUE(results == expected);
}

task<> differ(trainer me, std::vector<std::string>* seen) {
  const tensor x(shape(me.rank() == 2 ? 3 : 4));
  try {
    co_await me.group().all_gather(x);
  } catch (const error& e) {
    (*seen)[me.rank()] = e.what();
  }
}

TEST_F(GroupOnTwoNodes, NamesCallsThatDiffer) {
  std::vector<std::string> seen(3);
  start([&seen](trainer me) { return differ(me, &seen); });
  run();
  EXPECT_TRUE(all_have_ended());
  for (std::string& one : seen) {
    EXPECT_NE(one.find(" (group_nodes_test.cpp:"), one.rfind(" (group_nodes_test.cpp:")) << "of both: " << one;
    one = test::without_places(one);
  }
  for (const std::uint32_t rank : {0U, 1U})
    EXPECT_EQ(seen[rank],
              "trainer " + std::to_string(rank) +
                  " calls all_gather [4] of float32 as its 1st collective, trainer 2 calls all_gather [3] of "
                  "float32; all members of a group call the same, in the same order");
  EXPECT_TRUE(seen[2].starts_with("trainer 2 calls all_gather [3] of float32 as its 1st collective, trainer "))
      << seen[2];
}

task<> wait_long(trainer me) {
  if (me.rank() == 2) co_await me.group().recv(0);
  co_await me.group().barrier();
}

task<> stay_away(trainer me, const promise<>* gate) {
  if (me.rank() == 2) co_await gate->get_future();
  co_await me.group().barrier();
}

TEST_F(GroupOnTwoNodes, HasADeadline) {
  const promise<> gate;
  start([&gate](trainer me) { return stay_away(me, &gate); });
  run();
  here_.scheduler().advance_time(default_deadline - std::chrono::seconds(1));
  run();
  EXPECT_FALSE(ends_[0]->has_value());
  here_.scheduler().advance_time(std::chrono::seconds(2));
  run();
  ASSERT_TRUE(ends_[0]->has_value());
  EXPECT_EQ(
      test::without_places(protocol::describe(**ends_[0])),
      "trainer 0, step 0: trainer 0 calls barrier as its 1st collective, which trainer 2 did not call within 300 s");
}

TEST_F(GroupOnTwoNodes, NamesTrainersThatWaitForEachOther) {
  start([](trainer me) { return wait_long(me); });
  run();
  pass(std::chrono::seconds(1));
  ASSERT_TRUE(ends_[0]->has_value());
  EXPECT_EQ(test::without_places(protocol::describe(**ends_[0])),
            "trainer 0, step 0: trainers wait for each other, and none of them can continue: trainer 0 calls barrier "
            "as its 1st collective; trainer 2 waits for a tensor with tag 0 of trainer 0; all trainers call what "
            "belongs together, in the same order");
}

/// Trainer 0 waits for trainer 1, which waits for a tensor that trainer 0 sends once it has one from trainer 2.
task<> pass_on(trainer me, const promise<>* gate) {
  const group all = me.group();
  const tensor x({1});
  if (me.rank() == 0) all.recv(2).then([all, x](const future<tensor>& /*come*/) { all.send(x, 1); });
  if (me.rank() == 1) co_await all.recv(0);
  if (me.rank() == 2) {
    co_await gate->get_future();
    all.send(x, 0);
  }
  co_await all.barrier();
}

TEST_F(GroupOnTwoNodes, WaitsForATrainerThatIsLateAndForCallbacks) {
  const promise<> gate;
  start([&gate](trainer me) { return pass_on(me, &gate); });
  run();
  pass(std::chrono::seconds(100));
  for (const auto& one : ends_) EXPECT_FALSE(one->has_value());
  gate.set();
  run();
  EXPECT_TRUE(all_have_ended());
}

task<> wait_for_each_other(trainer me, const promise<>* gate) {
  const group all = me.group();
  if (me.rank() == 0) co_await all.recv(1);
  if (me.rank() == 2) co_await gate->get_future();
  co_await all.all_reduce(tensor({4}));
}

TEST_F(GroupOnTwoNodes, EndsItsWaitsWhenTheRunIsToStop) {
  const promise<> gate;
  start([&gate](trainer me) { return wait_for_each_other(me, &gate); });
  run();
  for (const auto& one : answers_) EXPECT_FALSE(one->value.has_value());
  for (const auto& one : trainers_) caf::anon_send(one, msg::stop{{1}});
  run();
  EXPECT_TRUE(answers_[0]->value.has_value());
  EXPECT_TRUE(answers_[1]->value.has_value());
  EXPECT_FALSE(answers_[2]->value.has_value()) << "it does not wait for others";
  gate.set();  // now it would wait
  run();
  ASSERT_TRUE(all_have_ended());
  for (const auto& one : answers_) EXPECT_TRUE(one->value->stopped);
}

task<> send_one(trainer me) {
  if (me.rank() == 0) me.group().send(tensor({1}), 1);
  if (me.rank() == 1) co_await me.group().recv(2);
  if (me.rank() == 2) co_await me.group().recv(1);
}

TEST_F(GroupOnTwoNodes, ForgetsWhatWasSentWhenTheRunIsToStop) {
  start([](trainer me) { return send_one(me); });
  run();
  EXPECT_FALSE(answers_[0]->value.has_value()) << "its tensor is not received";
  for (const auto& one : trainers_) caf::anon_send(one, msg::stop{{1}});
  run();
  EXPECT_TRUE(all_have_ended());
}

/// Sends a message that no trainer sends; returns how the actor ended.
template <class Message>
std::string end_by(actors::staged_system& where, const msg::trainer_actor& receiver, Message message) {
  const auto end = where.watch(receiver);
  caf::anon_send(caf::actor_cast<msg::peer_actor>(receiver), std::move(message));
  where.run();
  return *end ? protocol::describe(**end) : "it continues";
}

TEST_F(GroupOnTwoNodes, RefusesWhatNoTrainerSends) {
  start([](trainer me) { return wait_long(me); });
  run();
  const msg::tensor some = msg::tensor::own(2, 1, std::vector<float>(2));
  EXPECT_EQ(end_by(here_, trainers_[0], msg::collective_share{{1}, 0, {0, 1, 2}, 0, 1, "barrier", {}, {}}),
            "trainer 0, step 0: a collective of trainer 0 from another process");
  EXPECT_EQ(end_by(here_, trainers_[1], msg::collective_share{{1}, 0, {0, 0, 1}, 4, 1, "barrier", {}, {}}),
            "trainer 1, step 0: a collective of trainer 0 in an impossible group");
  EXPECT_EQ(end_by(there_, trainers_[2], msg::peer_tensor{{1}, 0, {0, 1, 2}, 0, 0, {1ULL << 63, 2, 2}, some}),
            "trainer 2, step 0: a malformed tensor of trainer 0");
}

TEST_F(GroupOnTwoNodes, RefusesAProbeThatNoTrainerSends) {
  start([](trainer me) { return wait_long(me); });
  run();
  EXPECT_EQ(end_by(here_, trainers_[0], msg::wait_probe{{1}, 1, 1, {}}),
            "trainer 0, step 0: an impossible probe of trainer 1");
  EXPECT_EQ(end_by(here_, trainers_[1], msg::wait_probe{{1}, 1, 1, {}}),
            "trainer 1, step 0: a collective of trainer 1 from another process");
}

TEST_F(GroupOnTwoNodes, RefusesASumThatIsNotOwed) {
  start([](trainer me) { return wait_long(me); });
  run();
  const msg::tensor some = msg::tensor::own(2, 1, std::vector<float>(2));
  EXPECT_EQ(end_by(here_, trainers_[0], msg::collective_sum{{1}, 1, {0, 1, 2}, 0, 1, some}),
            "trainer 0, step 0: an unexpected sum of trainer 1");
  EXPECT_EQ(end_by(here_, trainers_[1], msg::collective_sum{{1}, 7, {0, 1, 2}, 0, 1, some}),
            "trainer 1, step 0: a collective of trainer 7 from another process");
}

}  // namespace
}  // namespace troupe::group_nodes_test
