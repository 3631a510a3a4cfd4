// Errors of a trainer function name their cause: the step where a loss becomes NaN, or the object that ran out of
// memory.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::failing_steps_test {
namespace {

using test::error_of;
using test::scale;

// -- losses that are not finite ---------------------------------------------------------

enum class where_nan { input, weight, output, target, rows };

/// Turns numbers into NaN.
class breaking final : public scale {
 public:
  breaking() : scale(2) {}
  std::string type() const override { return "breaking"; }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    scale::forward(how, numbers);
    numbers.output[1] = std::nanf("");
  }
};

tensor with_nan(bool is_spoilt) {
  return tensor::of<float>({2, 2}, std::vector<float>{1, 1, 1, is_spoilt ? std::nanf("") : 1});
}

named_tensors spoilt_linear() {
  return {{"weight", with_nan(true)}, {"bias", tensor::of<float>({2}, std::vector<float>{0, 0})}};
}

named_tensors spoilt_table() { return {{"weight", with_nan(true)}}; }

task<> lose(trainer me, remote_module<nn::embedding_bag> table, where_nan where) {
  auto first = me.data_parallel(nn::linear(2, 2), {.name = "tower"});
  auto second = me.data_parallel(breaking());
  distributed_optimizer optimizer(sgd{.lr = 0.1}, first, table);
  const named_tensors of_linear = spoilt_linear(), of_table = spoilt_table();
  if (where == where_nan::weight) first.load_state_dict(of_linear);
  if (where == where_nan::rows) co_await table.load_state_dict(of_table);
  auto context = me.new_context();
  tensor x = with_nan(where == where_nan::input);
  const std::vector<std::int64_t> ids = {0, 1};
  if (where == where_nan::rows) x = co_await table.forward(context, ids, ids);
  tensor y = first(context, x);
  if (where == where_nan::output) y = second(context, y);
  co_await context.backward(nn::mse_loss(context, y, with_nan(where == where_nan::target)));
}

std::string error_of_loss(where_nan where) {
  test::made_cluster cluster;
  const auto table =
      cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 2, .embedding_dim = 2, .name = "users"});
  return test::error_of([&] { cluster.run(1, lose, table, where); });
}

TEST(FailingSteps, NameWhereALossBecomesNan) {
  EXPECT_FINDS(error_of_loss(where_nan::input),
               "step 1: the loss is NaN: the input of tower has NaN in sample 1 (number 3 of 4); it was given so");
  EXPECT_FINDS(error_of_loss(where_nan::weight),
               "the loss is NaN: tower: a dense weight, weight [2, 2], is NaN (number 3 of 4); try a smaller");
  EXPECT_FINDS(error_of_loss(where_nan::output),
               "the loss is NaN: breaking makes of finite numbers an output that has NaN in sample 0 (number 1 of 4)");
  EXPECT_FINDS(error_of_loss(where_nan::target),
               "the loss is NaN: the target of mse_loss has NaN in sample 1 (number 3 of 4); look at the data");
  EXPECT_FINDS(error_of_loss(where_nan::rows),
               "the loss is NaN: the output of embedding_bag of users on server 0 has NaN in sample 1 (number 3 of 4): "
               "its rows are so; look at what was loaded into it, or try a smaller learning rate");
}

// -- in modules on servers, functions and other trainers ---------------------------------

task<> lose_there(trainer me, remote_module<nn::linear> far, bool is_given) {
  const named_tensors state = spoilt_linear();
  if (!is_given) co_await far.load_state_dict(state);
  auto context = me.new_context();
  const tensor x = with_nan(is_given);
  const tensor y = co_await far.forward(context, x);
  co_await context.backward(mean(context, y));
}

std::string error_of_loss_there(bool is_given) {
  test::made_cluster cluster;
  const auto far = cluster.server(0).make<nn::linear>({.in_features = 2, .out_features = 2});
  return test::error_of([&] { cluster.run(1, lose_there, far, is_given); });
}

TEST(FailingSteps, NameAModuleOnAServerByWhichALossBecomesNan) {
  EXPECT_FINDS(error_of_loss_there(true),
               "the loss is NaN: the input of linear.forward on server 0 has NaN in sample 1 (number 3 of 4); it was "
               "given so: look at the data");
  EXPECT_FINDS(error_of_loss_there(false),
               "the loss is NaN: linear on server 0: a dense weight, weight [2, 2], is NaN (number 3 of 4); "
               "try a smaller learning rate");
}

enum class function { adds, multiplies, multiplies_doubles, dots, scales, overflows, sums, begins };

task<> lose_in(trainer me, function which) {
  auto model = me.data_parallel(nn::linear(2, 2));
  auto context = me.new_context();
  const tensor fine = with_nan(false);
  const tensor given = with_nan(true);
  const tensor y = model(context, fine);
  tensor z = y;
  if (which == function::adds) z = add(context, y, given);
  if (which == function::multiplies) z = multiply(context, given, y);
  if (which == function::dots) z = pairwise_dots(context, y, given);
  if (which == function::scales) z = troupe::scale(context, y, std::nan(""));
  if (which == function::overflows) z = troupe::scale(context, add(context, multiply(context, y, y), fine), 1e30);
  if (which == function::overflows) z = troupe::scale(context, z, 1e30);
  if (which == function::sums) z = co_await me.group().all_reduce(context, add(context, y, y));
  if (which == function::begins) co_await context.backward(nn::mse_loss(context, given, fine));
  if (which == function::multiplies_doubles) {
    const tensor factor = tensor::of<double>({1}, std::vector<double>{std::nan("")});
    co_await context.backward(multiply(context, mean(context, y), factor));
  }
  const tensor loss = mean(context, z);
  co_await context.backward(loss, which == function::sums ? std::nan("") : 1);
}

TEST(FailingSteps, NameAFunctionByWhichALossBecomesNan) {
  const std::string place = " has NaN in sample 1 (number 3 of 4); it was given so: look at the data";
  const std::string loss = "the loss is NaN: ";
  EXPECT_FINDS(error_of(1, lose_in, function::adds), loss + "an input [2, 2] of add" + place);
  EXPECT_FINDS(error_of(1, lose_in, function::multiplies), loss + "an input [2, 2] of multiply" + place);
  EXPECT_FINDS(error_of(1, lose_in, function::dots), loss + "an input [2, 2] of pairwise_dots" + place);
  EXPECT_FINDS(error_of(1, lose_in, function::begins), loss + "the first input of mse_loss" + place);
  EXPECT_FINDS(error_of(1, lose_in, function::multiplies_doubles),
               loss + "an input [1] of multiply has NaN in sample 0 (number 0 of 1); it was given so");
  EXPECT_FINDS(error_of(1, lose_in, function::scales), loss + "the factor of scale is NaN; look at what computes it");
  EXPECT_FINDS(error_of(1, lose_in, function::overflows),
               "the loss is Inf: scale makes of finite numbers an output that has Inf in sample 0 (number 0 of 4); try "
               "a smaller learning rate");
}

TEST(FailingSteps, SayThatTheScaleOfALossIsNoNumber) {
  const std::string text = error_of(1, lose_in, function::sums);
  EXPECT_FINDS(text, "backward: the scale of the loss is nan; it must be a finite number of float32");
  EXPECT_EQ(text.find("the loss is NaN"), std::string::npos) << text;
}

task<> lose_in_stages(trainer me) {
  auto model = me.pipeline({nn::sequential(nn::linear(2, 2)), nn::sequential(nn::linear(2, 2))});
  auto context = me.new_context();
  const tensor x = with_nan(true);
  const tensor target = with_nan(false);
  co_await model.step(context, x, target, nn::mse_loss);
}

TEST(FailingSteps, NameTheStageWhoseOutputMakesALossNan) {
  EXPECT_FINDS(error_of(2, lose_in_stages),
               "the loss is NaN: the output of stage 0 has NaN in sample 0 (number 0 of 2); look at the data that "
               "stage 0 takes");
}

// -- steps and memory -----------------------------------------------------------------

enum class deed { throws_before, throws_after, diverges };

task<> fail_in(trainer me, deed what) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  for (const auto i : me.steps(9)) {
    if (what == deed::throws_before && i == 4) throw std::runtime_error("the user's own");
    auto context = me.new_context();
    const bool bad = what == deed::diverges && i == 4;
    const std::vector<std::int64_t> classes = {0, 0};
    co_await context.backward(nn::cross_entropy(context, model(context, with_nan(bad)), classes));
    co_await optimizer.step(context);
    if (what == deed::throws_after && i == 4) throw std::runtime_error("the user's own");
  }
}

TEST(FailingSteps, CountAnIterationsStepAlikeFromItsBeginningToItsEnd) {
  for (const deed what : {deed::throws_before, deed::throws_after, deed::diverges})
    EXPECT_FINDS(error_of(1, fail_in, what), "trainer 0, step 5: ");
}

/// Needs more memory than there is.
class greedy final : public scale {
 public:
  greedy() : scale(2) {}
  std::string type() const override { return "greedy"; }
  void forward(const nn::pass&, const nn::pass_numbers&) const override { throw std::bad_alloc(); }
};

task<> run_greedy(trainer me) {
  auto model = me.data_parallel(greedy());
  auto context = me.new_context();
  model(context, with_nan(false));
  co_return;
}

TEST(FailingSteps, NameWhatMemoryLacksForAndNoOptionsOfOtherPrograms) {
  const std::string text = error_of(1, run_greedy);
  EXPECT_FINDS(text, "trainer 0, step 1: out of memory for greedy.forward; use ");
  for (const char* option : {"--rows", "--dim", "--hidden", "--batch-size", "--trainers", "bad_alloc"})
    EXPECT_EQ(text.find(option), std::string::npos) << text;
}

}  // namespace
}  // namespace troupe::failing_steps_test
