// How errors describe users' mistakes and their modules' exceptions.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::user_errors_test {
namespace {

using test::error_of;
using test::scale;

tensor ones() { return tensor::of<float>({1, 2}, std::vector<float>{1, 1}); }
const std::vector<std::int64_t> first_class = {0};

template <class Module>
std::string error_of_hosted() {
  test::made_cluster cluster;
  const auto hosted = cluster.server(0).make<Module>();
  return test::error_of([&] {
    cluster.run(
        1, [](trainer, remote_module<Module>) -> task<> { co_return; }, hosted);
  });
}

// -- gradients that are not finite ----------------------------------------------------

/// Its loss is finite, but not its gradient.
class spoiled final : public scale {
 public:
  spoiled() : scale(2) {}
  std::string type() const override { return "spoiled"; }
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    scale::backward(how, numbers, of);
    if (of.parameters) of.parameters[0][1] = std::nanf("");
  }
};

task<> diverge(trainer me, const char* name) {
  auto model = me.data_parallel(spoiled(), {.name = name});
  distributed_optimizer optimizer(sgd{.lr = 0.5}, model);
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const tensor loss = nn::cross_entropy(context, model(context, ones()), first_class);
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
}

TEST(UserErrors, NameTheReplicaWhoseGradientIsNotFinite) {
  const std::string text = "a dense gradient, weight [2], is NaN (number 1 of 2); try a smaller learning rate";
  EXPECT_FINDS(error_of(1, diverge, ""), "spoiled: " + text);
  EXPECT_FINDS(error_of(1, diverge, "tower"), "tower: " + text);
}

// -- contexts -------------------------------------------------------------------------

task<> step_late(trainer me) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{}, model);
  auto first = me.new_context();
  auto second = me.new_context();
  co_await optimizer.step(first);
  co_await optimizer.step(second);
}

task<> step_twice(trainer me) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{}, model);
  auto first = me.new_context();
  co_await optimizer.step(first);
  const auto another = me.new_context();
  co_await optimizer.step(first);
}

TEST(UserErrors, TellAContextThatIsOldFromOneThatIsUsed) {
  EXPECT_EQ(error_of(1, step_late),
            "trainer 0, step 1: an optimizer step with a context that was made before the last optimizer step; make a "
            "context for each step, after the step before it");
  EXPECT_FINDS(error_of(1, step_twice), "a second optimizer step with one context");
}

// -- names of parameters --------------------------------------------------------------

class named : public scale {
 public:
  explicit named(std::vector<std::string> names) : scale(names.size()), names_(std::move(names)) {}
  std::string type() const override { return "named"; }
  std::vector<nn::parameter> parameters() const override {
    std::vector<nn::parameter> all;
    for (const std::string& name : names_) all.push_back({name, {1}});
    return all;
  }

 private:
  std::vector<std::string> names_;
};

task<> make_named(trainer me, std::vector<std::string> names) {
  me.data_parallel(named(names));
  co_return;
}

std::string refused(std::vector<std::string> names) { return error_of(1, make_named, std::move(names)); }

TEST(UserErrors, NameParametersThatCheckpointsCannotKeep) {
  EXPECT_EQ(refused({"a", "b.c"}), "no error");
  EXPECT_FINDS(refused({"a b"}), "named: the parameter 'a b' has a name that checkpoints cannot keep");
  EXPECT_FINDS(refused({std::string(300, 'a')}), "at most ");
  EXPECT_FINDS(refused({"a", "a"}), "named: the parameter 'a' has a name that is there twice");
  EXPECT_FINDS(refused({""}), "named: a parameter has no name");
  EXPECT_FINDS(refused({"a.state.0"}), "named: the parameter 'a.state.0' has a name as of an optimizer's state");
}

task<> make_with_long_name(trainer me) {
  const std::string name(5000, 'a');
  me.data_parallel(nn::linear(2, 2), {.name = name.c_str()});
  co_return;
}

TEST(UserErrors, DoNotRepeatLongNamesOfReplicas) {
  const std::string said = error_of(1, make_with_long_name);
  EXPECT_FINDS(said, "has a name that checkpoints cannot keep");
  EXPECT_LT(said.size(), 500u) << said;
}

class badly_named final : public named {
 public:
  badly_named() : named({"a b"}) {}
};
const registered<badly_named> bad_names("badly_named");

TEST(UserErrors, NameParametersOfHostedModulesThatCheckpointsCannotKeep) {
  EXPECT_FINDS(error_of_hosted<badly_named>(), "the parameter 'a b' has a name that checkpoints cannot keep");
}

// -- state that is empty --------------------------------------------------------------

/// Records what it is given.
struct kept {
  named_tensors state;
  named_tensors loaded = {{"none", {}}};
  named_tensors state_dict() const { return state; }
  void load_state_dict(const named_tensors& given) { loaded = given; }
};

task<> keep_empty(trainer me, named_tensors* numbers, named_tensors* nothing) {
  kept with_empty;
  with_empty.state.emplace_back("all", tensor(shape(0, 3), dtype::f64));
  kept without;
  me.register_state("numbers", with_empty);
  me.register_state("nothing", without);
  *numbers = with_empty.loaded;
  *nothing = without.loaded;
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{}, model);
  for ([[maybe_unused]] const auto step : me.steps(2)) {
    auto context = me.new_context();
    co_await optimizer.step(context);
  }
}

TEST(KeptState, MayBeEmpty) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  named_tensors numbers;
  named_tensors nothing;
  test::run_with({"--quiet", "--save", there}, 1, keep_empty, &numbers, &nothing);
  test::run_with({"--quiet", "--resume", there}, 1, keep_empty, &numbers, &nothing);
  ASSERT_EQ(numbers.size(), 1U);
  EXPECT_EQ(numbers[0].first, "all");
  EXPECT_EQ(numbers[0].second.shape(), shape(0, 3));
  EXPECT_EQ(numbers[0].second.type(), dtype::f64);
  EXPECT_TRUE(nothing.empty());
}

// -- modules that throw ---------------------------------------------------------------

class thrower : public scale {
 public:
  explicit thrower(std::string where) : scale(2), where_(std::move(where)) {}
  std::string type() const override { return "thrower"; }
  void initialize(std::uint64_t key, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& buffers) const override {
    fail_in("initialize");
    scale::initialize(key, parameters, buffers);
  }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    fail_in("forward");
    scale::forward(how, numbers);
  }
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    if (of.input) fail_in("backward");
    if (of.parameters) fail_in("backward_parameters");
    scale::backward(how, numbers, of);
  }

 private:
  void fail_in(const char* function) const {
    if (where_ == function) throw std::runtime_error("it is bad");
  }

  std::string where_;
};

task<> train_thrower(trainer me, std::string where) {
  auto below = me.data_parallel(nn::linear(2, 2));
  auto model = me.data_parallel(thrower(where));
  distributed_optimizer optimizer(sgd{}, below, model);
  auto context = me.new_context();
  const tensor loss = nn::cross_entropy(context, model(context, below(context, ones())), first_class);
  co_await context.backward(loss);
  co_await optimizer.step(context);
}

task<> evaluate_thrower(trainer me) {
  auto model = me.data_parallel(thrower("forward"));
  auto context = me.no_grad();
  model(context, ones());
  co_return;
}

TEST(UserErrors, NameTheModuleAndItsFunctionThatThrows) {
  for (const std::string where : {"forward", "backward", "backward_parameters"})
    EXPECT_EQ(error_of(1, train_thrower, where), "trainer 0, step 1: thrower." + where + ": it is bad");
  EXPECT_EQ(error_of(1, train_thrower, std::string("initialize")), "trainer 0, step 0: thrower.initialize: it is bad");
  EXPECT_EQ(error_of(1, evaluate_thrower), "trainer 0, step 0: thrower.forward: it is bad");
}

class hosted_thrower final : public thrower {
 public:
  hosted_thrower() : thrower("initialize") {}
};
const registered<hosted_thrower> throwers("hosted_thrower");

TEST(UserErrors, NameTheHostedModuleWhoseInitializeThrows) {
  EXPECT_FINDS(error_of_hosted<hosted_thrower>(), "thrower.initialize: it is bad");
}

// -- moving ---------------------------------------------------------------------------

task<> move_within_a_step(trainer me, remote_module<nn::linear> layer) {
  auto context = me.new_context();
  const tensor x = ones();
  co_await layer.forward(context, x);
  co_await layer.to("cpu");
}

TEST(UserErrors, SayWhenAModuleMayBeMoved) {
  test::made_cluster cluster;
  const auto layer = cluster.server(0).make<nn::linear>({.in_features = 2, .out_features = 2});
  EXPECT_FINDS(error_of([&] { cluster.run(1, move_within_a_step, layer); }),
               "move it between steps, after a barrier of all trainers");
}

}  // namespace
}  // namespace troupe::user_errors_test
