// Collectives that gradients pass through: values and gradients compared with the derivatives of the same formulas in
// double, and errors.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/library/own_modules.hpp"
#include "tests/library/places.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::group_gradients_test {
namespace {

using test::error_of;
using test::run;

constexpr std::size_t features = 4;
const std::vector<float> inputs = {0.5F, -0.25F, 0.75F, 1.25F};

/// The factor that trainer `rank` applies to its part.
float factor(std::uint32_t rank, std::size_t i) {
  return 0.25F * static_cast<float>(rank + 1) - 0.125F * static_cast<float>(i);
}

tensor factors(std::uint32_t rank) {
  const tensor made({1, features});
  for (std::size_t i = 0; i < features; ++i) made.as<float>()[i] = factor(rank, i);
  return made;
}

/// A trainer's results, and its weights after a step with learning rate 1 from weights of 1.
struct outcome {
  std::vector<float> sum;
  std::vector<float> of_evaluation;
  std::vector<float> shared;  ///< the weights before the part that each member has
  std::vector<float> own;     ///< the weights of its part
};

/// The sum over the group of w_r factor_r p, where p = u x.
task<tensor> sum_of_parts(group all, std::uint32_t rank, context* in, tensor p, data_parallel own) {
  const tensor mine = multiply(*in, all.all_reduce_gradient(*in, p), factors(rank));
  co_return co_await all.all_reduce(*in, own(*in, mine));
}

/// loss = the sum of z^2, z = p + the sum over the group; computed in `passes` equal passes of one context.
task<> go_through(trainer me, std::vector<std::uint32_t> with, int passes, std::vector<outcome>* outcomes) {
  outcome& mine = (*outcomes)[me.rank()];
  const group all = with.empty() ? me.group() : me.group().subgroup(with);
  auto shared = me.data_parallel(test::scale(features), {.synchronized = false});
  auto own = me.data_parallel(test::scale(features), {.synchronized = false});
  distributed_optimizer optimizer(sgd{.lr = 1}, shared, own);
  const tensor x = tensor::of<float>({1, features}, inputs);
  {
    auto context = me.no_grad();
    const tensor sum = co_await sum_of_parts(all, me.rank(), &context, shared(context, x), own);
    mine.of_evaluation.assign(sum.as<float>().begin(), sum.as<float>().end());
  }
  auto context = me.new_context();
  for (int pass = 0; pass < passes; ++pass) {
    const tensor p = shared(context, x);
    const tensor sum = co_await sum_of_parts(all, me.rank(), &context, p, own);
    mine.sum.assign(sum.as<float>().begin(), sum.as<float>().end());
    const tensor z = add(context, p, sum);
    const tensor loss = troupe::sum(context, multiply(context, z, z));
    co_await context.backward(loss, 1.0 / passes);
  }
  co_await optimizer.step(context);
  mine.shared = shared.parameters();
  mine.own = own.parameters();
}

/// Expects trainer `rank`'s results of a group of `members`, which include `rank`.
void expect_closed_form(const outcome& of, std::uint32_t rank, const std::vector<std::uint32_t>& members) {
  ASSERT_EQ(of.own.size(), features);
  EXPECT_EQ(of.of_evaluation, of.sum);
  for (std::size_t i = 0; i < features; ++i) {
    const auto x = static_cast<double>(inputs[i]);
    double all = 0;
    for (const std::uint32_t one : members) all += static_cast<double>(factor(one, i));
    const double z = x * (1 + all);
    EXPECT_NEAR(of.sum[i], x * all, 1e-6) << rank;
    EXPECT_NEAR(of.shared[i], 1 - 2 * z * x * (1 + all), 1e-5) << rank;
    EXPECT_NEAR(of.own[i], 1 - 2 * z * x * static_cast<double>(factor(rank, i)), 1e-5) << rank;
  }
}

TEST(GroupGradients, AreThoseOfTheWhole) {
  for (const int passes : {1, 2}) {
    std::vector<outcome> outcomes(3);
    run(3, go_through, std::vector<std::uint32_t>(), passes, &outcomes);
    for (const std::uint32_t rank : {0U, 1U, 2U}) expect_closed_form(outcomes[rank], rank, {0, 1, 2});
    EXPECT_EQ(outcomes[0].shared, outcomes[1].shared) << "all have the same bits";
    EXPECT_EQ(outcomes[0].shared, outcomes[2].shared);
  }
}

task<> go_through_own_group(trainer me, std::vector<outcome>* outcomes) {
  const std::vector<std::uint32_t> with =
      me.rank() == 1 ? std::vector<std::uint32_t>{1} : std::vector<std::uint32_t>{2, 0};
  co_await go_through(me, with, 1, outcomes);
}

TEST(GroupGradients, AreThoseOfASubgroup) {
  std::vector<outcome> outcomes(3);
  run(3, go_through_own_group, &outcomes);
  for (const std::uint32_t rank : {0U, 2U}) expect_closed_form(outcomes[rank], rank, {0, 2});
  expect_closed_form(outcomes[1], 1, {1});
}

/// Two concurrent sums; the float64 one is the loss itself.
task<> sum_losses(trainer me, std::vector<double>* losses, std::vector<std::vector<float>>* weights) {
  auto own = me.data_parallel(test::scale(features), {.synchronized = false});
  distributed_optimizer optimizer(sgd{.lr = 1}, own);
  auto context = me.new_context();
  const tensor x = tensor::of<float>({1, features}, inputs);
  auto first = me.group().all_reduce(context, sum(context, multiply(context, own(context, x), factors(me.rank()))));
  auto second = me.group().all_reduce(context, own(context, x));
  const tensor outputs = co_await std::move(second);
  const tensor loss = co_await std::move(first);
  const tensor both = add(context, loss, sum(context, outputs));
  (*losses)[me.rank()] = both.item();
  co_await context.backward(both);
  co_await optimizer.step(context);
  (*weights)[me.rank()] = own.parameters();
}

TEST(GroupGradients, PassThroughSumsOfEitherTypeAtOnce) {
  std::vector<double> losses(2);
  std::vector<std::vector<float>> weights(2);
  run(2, sum_losses, &losses, &weights);
  double expected = 0;
  for (std::size_t i = 0; i < features; ++i)
    expected += static_cast<double>(inputs[i] * (factor(0, i) + factor(1, i) + 2));
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_NEAR(losses[rank], expected, 1e-6);
    for (std::size_t i = 0; i < features; ++i)
      EXPECT_NEAR(weights[rank][i], 1 - inputs[i] * (factor(rank, i) + 1), 1e-6) << i;
  }
}

/// Data need no exchange of gradients: trainer 1 does not even call backward.
task<> share_data(trainer me) {
  auto own = me.data_parallel(test::scale(features), {.synchronized = false});
  auto context = me.new_context();
  const tensor x = me.group().all_reduce_gradient(context, tensor::of<float>({1, features}, inputs));
  const tensor sum = co_await me.group().all_reduce(context, x);
  EXPECT_EQ(sum.as<float>()[0], 2 * inputs[0]);
  if (me.rank() == 0) co_await context.backward(troupe::sum(context, own(context, x)));
}

TEST(GroupGradients, OfDataAreNotExchanged) { run(2, share_data); }

/// Trainer 0 drops its context while the sum of gradients is in flight.
task<> drop(trainer me) {
  auto own = me.data_parallel(test::scale(features), {.synchronized = false});
  if (me.rank() == 1) co_await me.group().recv(0);
  {
    auto context = me.new_context();
    const tensor p = own(context, tensor::of<float>({1, features}, inputs));
    const tensor loss = sum(context, me.group().all_reduce_gradient(context, p));
    auto coming = context.backward(loss);
    EXPECT_EQ(coming.is_ready(), false);
    if (me.rank() == 1) co_await std::move(coming);
  }
  if (me.rank() == 0) me.group().send(tensor({1}), 1);
  co_await me.group().barrier();
}

TEST(GroupGradients, AreForgottenWithTheirContext) { run(2, drop); }

/// Two blocks x + (W2 gelu(W1 norm(x))) with the inner layers in slices and the norms as replicas; records the loss of
/// each step.
task<> train_blocks(trainer me, std::vector<std::vector<double>>* losses) {
  const group slices = me.group();
  const std::size_t mine = 8 / slices.size();
  std::vector<float> whole(2 * 8 * features);  // W1 [8, features], W2 [features, 8]
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i * 5 % 13) / 16 - 0.375F;
  std::vector<data_parallel> layers;
  for (int block = 0; block < 2; ++block) {
    layers.push_back(me.data_parallel(nn::layer_norm(features)));
    layers.push_back(
        me.data_parallel(nn::sequential(nn::linear(features, mine, false), nn::gelu()), {.synchronized = false}));
    layers.push_back(me.data_parallel(nn::linear(mine, features, false), {.synchronized = false}));
    const auto rows = std::span<const float>(whole).subspan(me.rank() * mine * features, mine * features);
    layers[layers.size() - 2].load_state_dict({{"0.weight", tensor::of<float>({mine, features}, rows)}});
    const tensor columns({features, mine});
    for (std::size_t k = 0; k < features * mine; ++k)
      columns.as<float>()[k] = whole[8 * features + k / mine * 8 + me.rank() * mine + k % mine];
    layers.back().load_state_dict({{"weight", columns}});
  }
  distributed_optimizer optimizer(adam{.lr = 0.05}, layers);
  const tensor samples({3, features});
  const tensor targets({3, features});
  for (std::size_t i = 0; i < samples.count(); ++i) {
    samples.as<float>()[i] = static_cast<float>(i * 7 % 11) / 8 - 0.5F;
    targets.as<float>()[i] = static_cast<float>(i * 3 % 7) / 4 - 0.75F;
  }
  for (int step = 0; step < 20; ++step) {
    auto context = me.new_context();
    tensor x = samples;
    for (std::size_t i = 0; i < layers.size(); i += 3) {
      const tensor shared = slices.all_reduce_gradient(context, layers[i](context, x));
      const tensor part = layers[i + 2](context, layers[i + 1](context, shared));
      x = add(context, x, co_await slices.all_reduce(context, part));
    }
    const tensor loss = nn::mse_loss(context, x, targets);
    (*losses)[me.rank()].push_back(loss.item());
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
}

TEST(GroupGradients, TrainBlocksWithReplicasBetweenSlices) {
  std::vector<std::vector<double>> whole(1);
  run(1, train_blocks, &whole);
  EXPECT_LT(whole[0][19], 0.5 * whole[0][0]) << "it learns";
  for (const std::uint32_t slices : {2U, 4U}) {
    std::vector<std::vector<double>> losses(slices);
    run(slices, train_blocks, &losses);
    ASSERT_EQ(losses[0].size(), 20U);
    for (std::size_t step = 0; step < 20; ++step)
      EXPECT_NEAR(losses[0][step], whole[0][step], 1e-5) << slices << " " << step;
    for (const auto& one : losses) EXPECT_EQ(one, losses[0]) << "all have the same bits";
  }
}

/// Each trainer has its own loss of the sum: both count.
task<> lose_apart(trainer me, std::vector<std::vector<float>>* weights) {
  auto own = me.data_parallel(test::scale(features), {.synchronized = false});
  distributed_optimizer optimizer(sgd{.lr = 1}, own);
  auto context = me.new_context();
  const tensor sum = co_await me.group().all_reduce(context, own(context, tensor::of<float>({1, features}, inputs)));
  const tensor shared = me.group().all_reduce_gradient(context, sum);
  co_await context.backward(troupe::sum(context, multiply(context, shared, factors(me.rank()))));
  co_await optimizer.step(context);
  (*weights)[me.rank()] = own.parameters();
}

TEST(GroupGradients, AreOfAllLossesWhereMembersHaveTheirOwn) {
  std::vector<std::vector<float>> weights(2);
  run(2, lose_apart, &weights);
  for (const auto& one : weights)
    for (std::size_t i = 0; i < features; ++i)
      EXPECT_NEAR(one[i], 1 - inputs[i] * (factor(0, i) + factor(1, i)), 1e-6) << i;
}

// -- errors -----------------------------------------------------------------------------------

enum class mistake {
  whole,
  none,
  whole_gradient,
  none_gradient,
  other_context,
  other_shape,
  other_shape_back,
  no_way_back
};

task<> err(trainer me, mistake what) {
  const group all = me.group();
  auto own = me.data_parallel(test::scale(features), {.synchronized = false});
  auto context = me.new_context();
  auto before = me.new_context();
  const tensor x = tensor::of<float>({1, features}, inputs);
  const tensor p = own(context, x);
  const tensor longer = concat(context, p, x);
  switch (what) {
    case mistake::whole:
      co_await all.all_reduce(context, tensor({3}, dtype::i64));
      break;
    case mistake::none:
      co_await all.all_reduce(context, tensor());
      break;
    case mistake::whole_gradient:
      all.all_reduce_gradient(context, tensor({3}, dtype::i64));
      break;
    case mistake::none_gradient:
      all.all_reduce_gradient(context, tensor({0, 3}));
      break;
    case mistake::other_context:
      co_await all.all_reduce(before, p);
      break;
    case mistake::other_shape:
      co_await all.all_reduce(context, me.rank() == 0 ? p : longer);
      break;
    case mistake::other_shape_back:
      co_await context.backward(sum(context, all.all_reduce_gradient(context, me.rank() == 0 ? p : longer)));
      break;
    case mistake::no_way_back:
      if (me.rank() == 1) co_await all.recv(0);
      const tensor shared = all.with_deadline(std::chrono::milliseconds(50)).all_reduce_gradient(context, p);
      co_await context.backward(sum(context, shared));
      break;
  }
}

std::string description_of(mistake what) {
  const std::string whole = test::without_places(error_of(2, err, what));
  return whole.substr(std::min(whole.size(), whole.find(": ") + 2));
}

TEST(GroupGradients, NameWhatHasNone) {
  EXPECT_EQ(description_of(mistake::whole),
            "all_reduce in a context: a tensor [3] of int64; it takes float32 or float64, at least 1 number");
  EXPECT_EQ(description_of(mistake::none),
            "all_reduce in a context: a tensor [] of float32; it takes float32 or float64, at least 1 number");
  EXPECT_EQ(description_of(mistake::whole_gradient),
            "all_reduce_gradient in a context: a tensor [3] of int64; it takes float32 or float64, at least 1 number");
  EXPECT_EQ(
      description_of(mistake::none_gradient),
      "all_reduce_gradient in a context: a tensor [0, 3] of float32; it takes float32 or float64, at least 1 number");
  EXPECT_EQ(description_of(mistake::other_context),
            "a tensor [1, 4] that another context has computed; within one batch, use one context");
}

TEST(GroupGradients, NameMembersThatDiffer) {
  const std::string end = "; all members of a group call the same, in the same order";
  for (const mistake one : {mistake::other_shape, mistake::other_shape_back}) {
    const std::string text = description_of(one);
    EXPECT_TRUE(
        text ==
            "trainer 0 calls all_reduce sum [1, 4] of float32 as its 1st collective, trainer 1 calls all_reduce "
            "sum [1, 8] of float32" +
                end ||
        text ==
            "trainer 1 calls all_reduce sum [1, 8] of float32 as its 1st collective, trainer 0 calls all_reduce "
            "sum [1, 4] of float32" +
                end)
        << text;
  }
  EXPECT_EQ(description_of(mistake::no_way_back),
            "trainer 0 calls all_reduce sum [1, 4] of float32 as its 1st collective, which "
            "trainer 1 did not call within 0.05 s");
}

}  // namespace
}  // namespace troupe::group_gradients_test
