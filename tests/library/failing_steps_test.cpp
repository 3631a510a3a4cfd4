// Errors of a trainer function name what they can: where a loss becomes NaN, the step, and what memory lacks for.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/library/arguments.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::failing_steps_test {
namespace {

using test::error_of;
using test::scale;

#define EXPECT_FINDS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// -- losses that are not finite ---------------------------------------------------------

enum class where_nan { input, weight, output, target, rows };

/// Makes NaN of numbers.
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
  test::arguments none{};
  cluster cluster(none.count(), none.values());
  const auto table = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 2, .embedding_dim = 2});
  try {
    cluster.run(1, lose, table, where);
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
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
  EXPECT_FINDS(error_of_loss(where_nan::rows), "the loss is NaN: the input of tower, rows of embedding_bag");
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
