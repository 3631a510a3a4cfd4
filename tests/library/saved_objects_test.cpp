// Checkpoints of programs with objects and modules on servers, with every kind of state.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/arguments.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::saved_objects_test {
namespace {

/// Counts, and saves the count under its own name, next to an empty tensor.
class tally final : public remote_object {
 public:
  static void describe(methods<tally>& m) {
    m.add("add", &tally::add);
    m.add("value", &tally::value);
  }
  void add() { ++count_; }
  std::int64_t value() const { return count_; }
  named_tensors state_dict() const override {
    return {{"w", tensor::of(shape(1), std::span<const std::int64_t>(&count_, 1))}, {"nothing", tensor(shape(0, 3))}};
  }
  void load_state_dict(const named_tensors& state) override {
    EXPECT_EQ(state.size(), 2U);
    count_ = state.at(0).second.as<std::int64_t>()[0];
  }

 private:
  std::int64_t count_ = 0;
};
const registered<tally> tallies("saved_objects_test.tally");

/// Has no state.
class doorbell final : public remote_object {
 public:
  static void describe(methods<doorbell>& m) { m.add("ring", &doorbell::ring); }
  int ring() { return 1; }
};
const registered<doorbell> doorbells("saved_objects_test.doorbell");

/// A network module without parameters.
const registered<nn::relu> cuts("saved_objects_test.relu");

task<> train(trainer me, remote_module<tally> count, remote_module<doorbell> bell, remote_module<nn::relu> cut,
             int break_after, std::int64_t* value) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  const std::vector<std::int64_t> classes = {0};
  int steps = 0;
  for ([[maybe_unused]] const auto step : me.steps(6)) {
    co_await count.call(&tally::add);
    co_await bell.call(&doorbell::ring);
    auto context = me.new_context();
    tensor x({1, 2});
    x.as<float>()[0] = x.as<float>()[1] = 1;
    const tensor hidden = model(context, x);
    const tensor outputs = co_await cut.forward(context, hidden);
    co_await context.backward(nn::cross_entropy(context, outputs, classes));
    co_await optimizer.step(context);
    if (++steps == break_after) throw std::runtime_error("the power has failed");
  }
  *value = co_await count.call(&tally::value);
}

std::int64_t run(std::vector<std::string> text, int break_after) {
  test::made_cluster cluster(std::move(text));
  const auto count = cluster.server(0).make<tally>();
  const auto bell = cluster.server(0).make<doorbell>();
  const auto cut = cluster.server(0).make<nn::relu>();
  std::int64_t value = 0;
  cluster.run(1, train, count, bell, cut, break_after, &value);
  return value;
}

TEST(SavedObjects, GoOnWithStateOfAnyNameOrNone) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  EXPECT_THROW(run({"--quiet", "--save", there, "--checkpoint-every", "2"}, 5), error);
  EXPECT_EQ(run({"--quiet", "--save", there, "--resume", there}, 0), 6);
}

task<> step_once(trainer me, int* seen) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  for ([[maybe_unused]] const auto step : me.steps(2)) {
    auto context = me.new_context();
    co_await optimizer.step(context);
    ++*seen;
  }
}

TEST(SavedPrograms, MayHaveAnOptionForTheirTrainers) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const auto steps_of = [](std::vector<std::string> text) {
    std::uint64_t trainers = 1;
    test::arguments given(std::move(text));
    cluster cluster(given.count(), given.values(), {option("trainers", trainers, "how many")});
    int seen = 0;
    cluster.run(static_cast<std::uint32_t>(trainers), step_once, &seen);
    return seen;
  };
  EXPECT_EQ(steps_of({"--quiet", "--save", there}), 2);
  EXPECT_EQ(steps_of({"--quiet", "--resume", there}), 0) << "all is done";
}

std::string error_of_options(const std::vector<std::string>& names) {
  std::string text;
  std::vector<option> own;
  own.reserve(names.size());
  for (const std::string& name : names) own.emplace_back(name, text, "meaning");
  test::arguments given{};
  return test::error_of([&] { const cluster made(given.count(), given.values(), own); });
}

TEST(ProgramOptions, HaveNamesThatNothingElseHas) {
  EXPECT_EQ(error_of_options({"how", "rows-2"}), "no error");
  EXPECT_EQ(error_of_options({"seed"}), "option 'seed': every program with a cluster has --seed; choose another name");
  EXPECT_EQ(error_of_options({"rank"}), "option 'rank': every program with a cluster has --rank; choose another name");
  EXPECT_EQ(error_of_options({"how", "how"}), "option 'how': is there twice");
  for (const char* name : {"", "-x", "a b", "Bad"})
    EXPECT_FINDS(error_of_options({name}), "must be lower-case letters, digits and dashes") << name;
}

std::string error_of_choice(const optimizer_choice& choice) {
  test::made_cluster cluster;
  return test::error_of([&] {
    cluster.run(1, [&choice](trainer me) -> task<> {
      auto model = me.data_parallel(nn::linear(2, 2));
      const distributed_optimizer optimizer(choice, model);
      co_return;
    });
  });
}

TEST(OptimizerErrors, NameWhatIsOutOfRange) {
  EXPECT_EQ(error_of_choice(sgd{.lr = 0}), "no error");
  EXPECT_FINDS(error_of_choice(sgd{.lr = -1}), "lr -1: must be a number of 0 or more");
  EXPECT_FINDS(error_of_choice(adam{.lr = std::numeric_limits<double>::quiet_NaN()}), "must be a number");
  EXPECT_FINDS(error_of_choice(sgd{.lr = 1, .momentum = -3}), "momentum");
}

}  // namespace
}  // namespace troupe::saved_objects_test
