// Goal: trainers that wait for each other are found, and no others. Method: random waits of trainers without actors,
// compared with the transitive closure of the graph; programs whose trainers wait for each other, with deadlines that
// no test reaches.

#include "troupe/runtime/wait_cycles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/places.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::wait_cycles_test {
namespace {

// -- random waits ----------------------------------------------------------------------------

using graph = std::vector<std::vector<bool>>;  ///< [i][j]: trainer i waits for trainer j

struct probe_under_way {
  std::uint32_t to;
  msg::wait_probe probe;
};

class drawn_trainer final : public runtime::waiting_trainer {
 public:
  drawn_trainer(const graph& waits, std::uint32_t rank, std::vector<probe_under_way>& mail)
      : waits_(waits), rank_(rank), mail_(mail) {}

  std::optional<runtime::trainer_wait> waits_now() const override {
    runtime::trainer_wait made{{.rank = rank_, .members = {}, .words = "trainer " + std::to_string(rank_)}, {}};
    for (std::uint32_t other = 0; other < waits_.size(); ++other)
      if (waits_[rank_][other]) made.on.push_back(other);
    if (made.on.empty()) return {};
    return made;
  }
  bool owes(const msg::peer_wait& theirs) const override { return waits_[theirs.rank][rank_]; }
  void send_probe(std::uint32_t to, std::uint64_t number, std::vector<msg::peer_wait> path) override {
    mail_.push_back({to, {{}, rank_, number, std::move(path)}});
  }
  void look_after(std::chrono::milliseconds /*delay*/) override {}
  void waits_for_ever(const std::string& text) override { found = text; }

  std::string found;

 private:
  const graph& waits_;
  std::uint32_t rank_;
  std::vector<probe_under_way>& mail_;
};

/// Returns for each trainer whether its waits form a cycle through it.
std::vector<bool> in_cycles(graph reached) {
  const std::size_t size = reached.size();
  for (std::size_t k = 0; k < size; ++k)
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < size; ++j)
        if (reached[i][k] && reached[k][j]) reached[i][j] = true;
  std::vector<bool> found(size);
  for (std::size_t i = 0; i < size; ++i) found[i] = reached[i][i];
  return found;
}

/// Returns which trainers detect a deadlock if probes arrive in random order.
std::vector<bool> found_in(const graph& waits, std::mt19937& random) {
  const auto size = static_cast<std::uint32_t>(waits.size());
  std::vector<probe_under_way> mail;
  std::vector<std::unique_ptr<drawn_trainer>> trainers;
  std::vector<runtime::wait_cycles> searches;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    trainers.push_back(std::make_unique<drawn_trainer>(waits, rank, mail));
    searches.emplace_back(*trainers.back(), rank, size);
  }
  for (int look = 0; look < 3; ++look)
    for (runtime::wait_cycles& one : searches) one.look();
  while (!mail.empty()) {
    std::swap(mail[random() % mail.size()], mail.back());
    const probe_under_way next = std::move(mail.back());
    mail.pop_back();
    EXPECT_TRUE(searches[next.to].take(next.probe.rank, next.probe));
  }
  std::vector<bool> found(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) found[rank] = !trainers[rank]->found.empty();
  return found;
}

TEST(WaitCycles, AreFoundByTheirMembersAlone) {
  std::mt19937 random(7);
  int cycles = 0;
  for (int drawn = 0; drawn < 500; ++drawn) {
    const auto size = static_cast<std::uint32_t>(2 + random() % 7);
    graph waits(size, std::vector<bool>(size));
    for (std::uint32_t i = 0; i < size; ++i)
      for (std::uint32_t j = 0; j < size; ++j) waits[i][j] = i != j && random() % size == 0;
    const std::vector<bool> expected = in_cycles(waits);
    EXPECT_EQ(found_in(waits, random), expected) << "drawn " << drawn;
    cycles += static_cast<int>(std::ranges::count(expected, true));
  }
  EXPECT_GT(cycles, 100);
}

TEST(WaitCycles, AreToldFromTheLowestRankOn) {
  const graph waits = {{false, false, true}, {true, false, false}, {false, true, false}};
  std::vector<probe_under_way> mail;
  drawn_trainer one(waits, 1, mail);
  runtime::wait_cycles search(one, 1, 3);
  std::vector<msg::peer_wait> path;
  for (const std::uint32_t rank : {1U, 0U, 2U})
    path.push_back({.rank = rank, .members = {}, .words = "trainer " + std::to_string(rank)});
  EXPECT_TRUE(search.take(2, {{}, 2, 1, path}));
  EXPECT_EQ(one.found,
            "trainers wait for each other, and none of them can continue: trainer 0; trainer 2; trainer 1; all "
            "trainers call what belongs together, in the same order");
}

TEST(WaitCycles, AreNotLookedForByProbesThatNoTrainerSends) {
  const graph waits = {{false, true}, {true, false}};
  std::vector<probe_under_way> mail;
  drawn_trainer one(waits, 0, mail);
  runtime::wait_cycles search(one, 0, 2);
  const msg::peer_wait of_1{.rank = 1, .members = {}, .words = ""};
  const msg::peer_wait of_2{.rank = 2, .members = {}, .words = ""};
  EXPECT_FALSE(search.take(1, {{}, 1, 1, {}}));
  EXPECT_FALSE(search.take(1, {{}, 1, 1, {of_2}}));
  EXPECT_FALSE(search.take(1, {{}, 1, 1, {of_2, of_1}})) << "there is no trainer 2";
  EXPECT_FALSE(search.take(1, {{}, 1, 1, {of_1, of_1}}));
  EXPECT_TRUE(mail.empty());
}

// -- programs ----------------------------------------------------------------------------------

constexpr const char* file = "wait_cycles_test.cpp";

enum class mistake { barrier, reduction, receipt, way_back, pass };

tensor rows() { return tensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 5}); }

/// Trainer 0 takes an optimizer step while trainer 1 waits for it elsewhere. `lines`: where they wait.
task<> miss_step(trainer me, mistake what, std::vector<int>* lines) {
  auto model = me.data_parallel(nn::batch_norm({.channels = 2, .synchronized = what == mistake::pass}));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  const group all = me.group().with_deadline(std::chrono::hours(1));
  const tensor x = rows();
  int& line = (*lines)[me.rank()];
  auto context = me.new_context();
  if (me.rank() == 1 && what == mistake::barrier) {
    line = __LINE__ + 1;
    co_await all.barrier();
  } else if (me.rank() == 1 && what == mistake::reduction) {
    line = __LINE__ + 1;
    co_await all.all_reduce(x);
  } else if (me.rank() == 1 && what == mistake::receipt) {
    line = __LINE__ + 1;
    co_await all.recv(0, 7);
  } else if (me.rank() == 1 && what == mistake::way_back) {
    line = __LINE__ + 1;
    const tensor shared = all.all_reduce_gradient(context, model(context, x));
    co_await context.backward(mean(context, shared));
  } else if (me.rank() == 0 && what == mistake::pass) {
    line = __LINE__ + 1;
    co_await all.barrier();
  } else if (what == mistake::pass) {
    line = __LINE__ + 1;
    model(context, x);
  }
  if (me.rank() == 0) line = __LINE__ + 1;
  co_await optimizer.step(context);
}

/// Expects both trainers' errors; '@' stands for a source location.
void expect_told(mistake what, const std::string& first, const std::string& second) {
  std::vector<int> lines(2);
  const std::string told = test::error_of(2, miss_step, what, &lines);
  const std::string begin = "trainers wait for each other, and none of them can continue: ";
  const std::string end = "; all trainers call what belongs together, in the same order";
  const auto with_place = [&](const std::string& text, int line) {
    const std::size_t at = text.find('@');
    return text.substr(0, at) + test::place_at(file, line) + text.substr(at + 1);
  };
  EXPECT_FINDS(told, begin + with_place(first, lines[0]) + "; " + with_place(second, lines[1]) + end);
}

TEST(WaitCycles, NameAStepAndWhatTheOtherTrainerWaitsForInstead) {
  expect_told(mistake::barrier, "trainer 0 takes optimizer step 1@", "trainer 1 calls barrier@ as its 1st collective");
  expect_told(mistake::reduction, "trainer 0 takes optimizer step 1@",
              "trainer 1 calls all_reduce sum [2, 2] of float32@ as its 1st collective");
  expect_told(mistake::receipt, "trainer 0 takes optimizer step 1@",
              "trainer 1 waits for a tensor with tag 7 of trainer 0@");
}

TEST(WaitCycles, NameAStepAndAWayBack) {
  expect_told(mistake::way_back, "trainer 0 takes optimizer step 1@",
              "trainer 1 calls all_reduce sum [2, 2] of float32@ as its 1st collective");
}

TEST(WaitCycles, NameAPassThatSynchronizesAndACollective) {
  expect_told(mistake::pass, "trainer 0 calls barrier@ as its 1st collective",
              "trainer 1 calls the forward pass of batch_norm replica0@ as its 1st collective with trainers 0, 1");
}

/// Each trainer waits for a tensor from the next one.
task<> wait_in_a_ring(trainer me, std::vector<int>* lines) {
  (*lines)[me.rank()] = __LINE__ + 1;
  co_await me.group().recv((me.rank() + 1) % me.trainers());
}

TEST(WaitCycles, AreNamedOfAnyLength) {
  std::vector<int> lines(4);
  const std::string told = test::error_of(4, wait_in_a_ring, &lines);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_FINDS(told, "trainer " + std::to_string(rank) + " waits for a tensor with tag 0 of trainer " +
                           std::to_string((rank + 1) % 4) + test::place_at(file, lines[rank]) + "; ");
}

/// Trainer 1 returns two contexts early: it takes part in trainer 0's third step, but not in the fourth.
task<> return_within_a_step(trainer me, int* line) {
  auto model = me.data_parallel(nn::batch_norm({.channels = 2, .synchronized = true}));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  for (int i = 0; i < (me.rank() == 0 ? 4 : 2); ++i) {
    auto context = me.new_context();
    const tensor x = rows();
    if (me.rank() == 0) *line = __LINE__ + 1;
    const tensor y = model(context, x);
    co_await context.backward(mean(context, multiply(context, y, y)));
    co_await optimizer.step(context);
  }
}

TEST(WaitCycles, NameATrainerThatReturnsWithinAnOptimizerStep) {
  int line = 0;
  const std::string told = test::error_of([&line] {
    test::arguments given{"--quiet"};
    cluster cluster(given.count(), given.values());
    cluster.run({.trainers = 2, .accumulate = 4}, return_within_a_step, &line);
  });
  EXPECT_FINDS(told, "trainer 0 calls the forward pass of batch_norm replica0" + test::place_at(file, line));
  EXPECT_FINDS(told, "; trainer 1 has returned within optimizer step 1, of 4 contexts; ");
}

}  // namespace
}  // namespace troupe::wait_cycles_test
