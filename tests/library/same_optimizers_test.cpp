// Trainers that train shared modules in different ways get an error in the first step in which they differ.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/places.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::same_optimizers_test {
namespace {

enum class difference { none, rate, kind, members, later, own_replica };

/// Trainer 1 differs. `line`: the line that calls `step`.
task<> train(trainer me, difference what, int* line) {
  const bool is_odd = me.rank() == 1;
  auto first = me.data_parallel(nn::linear(2, 2), {.name = "first"});
  auto second = me.data_parallel(nn::linear(2, 2), {.name = "second"});
  auto own = me.data_parallel(nn::linear(2, 2), {.synchronized = false});
  distributed_optimizer optimizer(sgd{.lr = is_odd && what == difference::rate ? 0.2 : 0.1}, first);
  if (is_odd && what == difference::kind) optimizer = distributed_optimizer(adam{.lr = 0.1}, second);
  if (is_odd && what == difference::members) optimizer.add(sgd{.lr = 0.1}, second);
  if (is_odd && what == difference::own_replica) optimizer.add(adam{.lr = 0.3}, own);
  for (int i = 0; i < 3; ++i) {
    if (i == 2 && what == difference::later) optimizer.add(sgd{.lr = is_odd ? 0.4 : 0.3}, second);
    auto context = me.new_context();
    if (me.rank() == 0) *line = __LINE__ + 1;
    co_await optimizer.step(context);
  }
}

std::string told(difference what, int& line) { return test::error_of(2, train, what, &line); }

/// Expects each trainer's part of the error.
void expect_told(difference what, int step, const std::string& of_0, const std::string& of_1) {
  int line = 0;
  const std::string text = told(what, line);
  const std::string place = test::place_at("same_optimizers_test.cpp", line);
  const std::string takes = " takes optimizer step " + std::to_string(step) + place + " with ";
  EXPECT_FINDS(text, "trainer 0" + takes + of_0);
  EXPECT_FINDS(text, "trainer 1" + takes + of_1);
  EXPECT_FINDS(text, "; all trainers take each step with the same optimizer");
}

TEST(SameOptimizers, NameWhatTheTrainersTrainAndHow) {
  expect_told(difference::rate, 1, "linear first by sgd", "linear first by sgd");
  expect_told(difference::kind, 1, "linear first by sgd", "linear second by adam");
  expect_told(difference::members, 1, "linear first by sgd", "linear first by sgd");
}

TEST(SameOptimizers, NameTheRatesThatDiffer) {
  int line = 0;
  const std::string text = told(difference::rate, line);
  EXPECT_FINDS(text, " with lr 0.1; ");
  EXPECT_FINDS(text, " with lr 0.2; ");
}

TEST(SameOptimizers, AreComparedAgainWhenOneTrainsMore) {
  expect_told(difference::later, 3, "linear first by sgd", "linear first by sgd");
}

TEST(SameOptimizers, MayTrainWhatIsATrainersOwnInAnyWay) {
  int line = 0;
  EXPECT_EQ(told(difference::none, line), "no error");
  EXPECT_EQ(told(difference::own_replica, line), "no error");
}

}  // namespace
}  // namespace troupe::same_optimizers_test
