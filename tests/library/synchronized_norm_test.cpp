// Goal: batch normalization over all trainers of a program trains like one trainer with all of their samples, and like
// a job; trainers that cannot synchronize are named. Method: the same samples on one, two and three trainers, evenly,
// unevenly and in parts; the job with the same layers; faulty programs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/needs_device.hpp"
#include "tests/library/job_network.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"

namespace troupe::synchronized_norm_test {
namespace {

using floats = std::vector<float>;

constexpr std::size_t samples = 12;  // of a part, over all trainers
constexpr std::uint64_t steps = 8;

nn::batch_norm norm(std::size_t channels, bool synchronized = true) {
  return nn::batch_norm({.channels = channels, .synchronized = synchronized});
}

nn::sequential network(bool synchronized) {
  return nn::sequential(
      nn::conv2d({.in_channels = 1, .out_channels = 4, .kernel = 3}), norm(4, synchronized), nn::relu(),
      nn::residual(nn::sequential(nn::conv2d({.in_channels = 4, .out_channels = 4, .kernel = 3, .padding = 1}),
                                  norm(4, synchronized))),
      nn::global_avg_pool2d(), nn::linear(4, 3));
}

struct images {
  tensor x;
  std::vector<std::int64_t> classes;
};

/// Samples [first, end) of a part of a step.
images images_of(std::uint64_t step, std::uint64_t part, std::size_t first, std::size_t end) {
  images made{tensor({end - first, 1, 5, 4}), {}};
  for (std::size_t n = first; n < end; ++n) {
    for (std::size_t i = 0; i < 20; ++i)
      made.x.as<float>()[(n - first) * 20 + i] =
          static_cast<float>((step * 31 + part * 13 + n * n * 5 + i * (n + 3)) % 23) / 11 - 1;
    made.classes.push_back(static_cast<std::int64_t>((step + n) % 3));
  }
  return made;
}

/// The number of samples that each trainer has of each part.
using shares = std::vector<std::vector<std::size_t>>;

struct outcome {
  std::vector<double> losses = {};
  floats weights = {};
  std::string digest = {};
};

/// Losses are scaled so that the mean over the trainers with a batch is the mean of all samples of all parts.
task<> train(trainer me, shares parts, bool synchronized, outcome* result) {
  auto model = me.data_parallel(network(synchronized));
  distributed_optimizer optimizer(sgd{.lr = 0.2, .momentum = 0.9}, model);
  std::vector<std::size_t> of_rank(me.trainers());
  for (const auto& part : parts) std::ranges::transform(part, of_rank, of_rank.begin(), std::plus());
  const auto contributors = of_rank.size() - static_cast<std::size_t>(std::ranges::count(of_rank, 0U));
  const std::size_t of_all = std::accumulate(of_rank.begin(), of_rank.end(), std::size_t{0});
  for (const auto step : me.steps(steps)) {
    auto context = me.new_context();
    tensor sum({1}, dtype::f64);
    sum.as<double>()[0] = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::size_t first = std::accumulate(parts[p].begin(), parts[p].begin() + me.rank(), std::size_t{0});
      const std::size_t mine = parts[p][me.rank()];
      if (mine == 0) continue;
      const images now = images_of(step, p, first, first + mine);
      const tensor loss = nn::cross_entropy(context, model(context, now.x), now.classes);
      const double share = static_cast<double>(mine) / static_cast<double>(of_all);
      sum.as<double>()[0] += loss.item() * share;
      co_await context.backward(loss, share * static_cast<double>(contributors));
    }
    co_await optimizer.step(context);
    const tensor loss = co_await me.group().all_reduce(sum);
    if (me.rank() == 0) result->losses.push_back(loss.item());
  }
  if (me.rank() != 0) co_return;
  auto context = me.no_grad();  // does not synchronize
  model(context, images_of(0, 0, 0, 3).x);
  result->weights = model.parameters();
}

outcome trained(const shares& parts, bool synchronized = true, std::vector<std::string> options = {}) {
  outcome result;
  options.insert(options.begin(), "--quiet");
  result.digest = test::run_with(test::arguments(std::move(options)), static_cast<std::uint32_t>(parts.front().size()),
                                 train, parts, synchronized, &result)
                      .weights_digest;
  return result;
}

double distance(const outcome& a, const outcome& b) {
  double most = 0;
  for (std::size_t i = 0; i < steps; ++i) most = std::max(most, std::abs(a.losses.at(i) - b.losses.at(i)));
  return most;
}

void expect_as_alone(const shares& parts, const outcome& alone) {
  const outcome found = trained(parts);
  EXPECT_LT(distance(found, alone), 1e-5) << testing::PrintToString(parts);
  ASSERT_EQ(found.weights.size(), alone.weights.size());
  for (std::size_t i = 0; i < found.weights.size(); ++i) EXPECT_NEAR(found.weights[i], alone.weights[i], 1e-4) << i;
}

TEST(SynchronizedNorm, TrainsAsOneTrainerWithAllSamplesDoes) {
  const outcome alone = trained({{samples}}, false);
  expect_as_alone({{6, 6}}, alone);
  expect_as_alone({{4, 4, 4}}, alone);
  EXPECT_GT(distance(trained({{4, 4, 4}}, false), alone), 1e-2) << "of its own batch each is another";
}

TEST(SynchronizedNorm, TakesShareOfTrainersWithFewerSamplesOrNone) {
  const outcome alone = trained({{samples}}, false);
  expect_as_alone({{5, 4, 3}}, alone);
  expect_as_alone({{8, 4, 0}}, alone);
  expect_as_alone({{0, 6, 6}}, alone);
}

TEST(SynchronizedNorm, TakesShareOfTrainersWithFewerParts) {
  expect_as_alone({{6, 6, 0}, {6, 0, 0}, {2, 0, 0}}, trained({{12}, {6}, {2}}, false));
}

TEST(SynchronizedNorm, OfATrainerAloneIsTheUsualOne) {
  const outcome usual = trained({{samples}}, false);
  const outcome found = trained({{samples}});
  EXPECT_EQ(found.digest, usual.digest);
}

TEST(SynchronizedNorm, HasTheSameBitsOnAnyNumberOfThreads) {
  const shares uneven = {{5, 4, 3}, {6, 0, 6}};
  const outcome expected = trained(uneven, true, {"--threads", "1"});
  for (const char* const threads : {"2", "4"}) {
    const outcome found = trained(uneven, true, {"--threads", threads});
    EXPECT_EQ(found.digest, expected.digest) << threads;
    EXPECT_EQ(found.losses, expected.losses) << threads;
  }
}

class SynchronizedNormGpu : public needs_device {};

TEST_F(SynchronizedNormGpu, TrainsAsOnTheProcessor) {
  const shares uneven = {{5, 4, 3}, {6, 0, 6}};
  EXPECT_LT(distance(trained(uneven, true, {"--device", "cuda"}), trained(uneven)), 2e-4);
}

// -- compared with a job ----------------------------------------------------------------------

const char* const layers_of_job = R"([
    {"kind": "conv2d", "out_channels": 4, "kernel": 3}, {"kind": "batch_norm", "synchronized": true}, {"kind": "relu"},
    {"kind": "conv2d", "out_channels": 6, "kernel": 3},
    {"kind": "batch_norm", "synchronized": true, "scale": false}, {"kind": "flatten"}, {"kind": "linear", "out": 10}])";

nn::sequential layers_of_program() {
  return nn::sequential(nn::conv2d({.in_channels = 1, .out_channels = 4, .kernel = 3}), norm(4), nn::relu(),
                        nn::conv2d({.in_channels = 4, .out_channels = 6, .kernel = 3}),
                        nn::batch_norm({.channels = 6, .scale = false, .synchronized = true}), nn::flatten(),
                        nn::linear(12, 10));
}

TEST(SynchronizedNorm, HasTheDigestOfTheJobWithTheSameLayers) {
  // In the fourth batch, trainer 0 has one row and the other trainers have no rows.
  test::expect_digest_of_job({layers_of_job, layers_of_program, 6, 5}, 3, 73);
}

// -- below a module on a server -----------------------------------------------------------------

/// The backward pass through the norm starts when a server has answered.
task<> train_below_server(trainer me, remote_module<nn::linear> last, std::vector<double>* losses) {
  auto first = me.data_parallel(nn::linear(20, 4));
  auto model = me.data_parallel(norm(4));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, first, model, last);
  const std::size_t mine = samples / me.trainers();
  for (const auto step : me.steps(steps)) {
    const images now = images_of(step, 0, me.rank() * mine, (me.rank() + 1) * mine);
    auto context = me.new_context();
    const tensor x = reshape(context, now.x, {mine, 20});
    const tensor scores = co_await last.forward(context, model(context, first(context, x)));
    const tensor loss = nn::cross_entropy(context, scores, now.classes);
    co_await context.backward(loss);
    co_await optimizer.step(context);
    const tensor mean = co_await me.group().all_reduce(loss, reduce_op::mean);
    if (me.rank() == 0) losses->push_back(mean.item());
  }
}

std::vector<double> trained_below_server(std::uint32_t trainers) {
  test::made_cluster cluster;
  auto last = cluster.server(0).make<nn::linear>({.in_features = 4, .out_features = 3});
  std::vector<double> losses;
  cluster.run(trainers, train_below_server, last, &losses);
  return losses;
}

TEST(SynchronizedNorm, GoesBackWhenAServerHasAnswered) {
  const std::vector<double> alone = trained_below_server(1);
  ASSERT_EQ(alone.size(), steps);
  for (const std::uint32_t trainers : {2U, 3U}) {
    const std::vector<double> found = trained_below_server(trainers);
    ASSERT_EQ(found.size(), steps);
    for (std::size_t i = 0; i < steps; ++i) EXPECT_NEAR(found[i], alone[i], 1e-5) << i;
  }
}

// -- errors ---------------------------------------------------------------------------------------

tensor rows_of(std::size_t count) { return tensor::of<float>({count, 2}, floats(count * 2, 1)); }

enum class mistake { returns, own_way, says_nothing, callback, other_replica, collective };

/// Holds a module that synchronizes, but does not declare that it synchronizes.
class holder : public nn::module {
 public:
  std::string type() const override { return "holder"; }
  std::vector<nn::parameter> parameters() const override { return held_.parameters(); }
  std::vector<nn::parameter> buffers() const override { return held_.buffers(); }
  troupe::shape output(const tensor_view& input) const override { return held_.output(input); }
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override {
    return held_.saved(input, on);
  }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override { held_.forward(how, numbers); }
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    held_.backward(how, numbers, of);
  }

 private:
  nn::batch_norm held_ = norm(2);
};

task<> do_wrong(trainer me, mistake what) {
  if (what == mistake::own_way) me.data_parallel(norm(2), {.synchronized = false});
  auto model = me.data_parallel(norm(2), {.name = "first"});
  auto another = me.data_parallel(norm(2), {.name = "second"});
  auto context = me.new_context();
  const bool is_odd = me.rank() == 1;
  if (what == mistake::returns && is_odd) co_return;
  if (what == mistake::says_nothing) me.data_parallel(holder())(context, rows_of(2));
  if (what == mistake::collective && is_odd)
    co_await me.group().with_deadline(std::chrono::milliseconds(300)).barrier();
  if (what == mistake::callback) {
    std::string text;
    promise<> later;
    auto waiting = later.get_future();
    me.group().barrier().then([&](future<>) {
      text = test::error_of([&] { model(context, rows_of(2)); });
      later.set();
    });
    co_await std::move(waiting);
    throw error(error_kind::input, text);
  }
  (what == mistake::other_replica && is_odd ? another : model)(context, rows_of(2));
}

std::string error_of(mistake what) { return test::error_of(2, do_wrong, what); }

void expect_within(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\n" << part;
}

TEST(SynchronizedNorm, NamesWhoDoesNotMeet) {
  expect_within(error_of(mistake::returns), {"trainer 0 calls the forward pass of batch_norm first",
                                             "which trainer 1 has not called: its function has returned"});
  expect_within(error_of(mistake::other_replica),
                {"the forward pass of batch_norm first", "the forward pass of batch_norm second"});
  expect_within(error_of(mistake::collective), {"trainer 1 calls barrier", "which trainer 0 did not call within 0.3 s",
                                                "trainer 0 calls the forward pass of batch_norm first"});
}

TEST(SynchronizedNorm, IsRefusedWhereItCannotBe) {
  expect_within(error_of(mistake::own_way), {"data_parallel: a module in batch_norm synchronizes"});
  expect_within(error_of(mistake::says_nothing), {"the forward pass of holder", "its own synchronizes() must say so"});
  expect_within(error_of(mistake::callback),
                {"the forward pass of batch_norm first waits for other trainers", "not in a callback"});
}

/// The same module, but it declares that it synchronizes.
class honest_holder final : public holder {
 public:
  bool synchronizes() const override { return true; }
};
const registered<honest_holder> hosted("holder of a norm");

/// Makes its replica after the first optimizer step.
task<> make_late(trainer me, bool awaits) {
  auto first = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, first);
  auto context = me.new_context();
  co_await optimizer.step(context);
  auto late = me.data_parallel(norm(2));
  if (awaits) co_await me.group().barrier();
  auto next = me.new_context();
  late(next, rows_of(2));
  co_await optimizer.step(next);
}

TEST(SynchronizedNorm, CanBeMadeAfterTheFirstStep) {
  EXPECT_EQ(test::error_of(2, make_late, true), "no error");
  expect_within(test::error_of(2, make_late, false),
                {"the forward pass of batch_norm replica1 waits",
                 "between the making of a replica after the first optimizer step"});
}

task<> do_nothing(trainer /*me*/) { co_return; }

TEST(SynchronizedNorm, IsRefusedOnAServer) {
  test::made_cluster cluster;
  const std::string told = test::error_of([&] {
    cluster.server(0).make<honest_holder>();
    cluster.run(1, do_nothing);
  });
  expect_within(told, {"holder: a module in it synchronizes, which only replicas can"});
}

/// Trainer 0 waits in its pass while trainer 1 fails.
task<> fail_beside(trainer me, std::shared_ptr<int> held) {
  const auto mine = held;
  auto model = me.data_parallel(norm(2));
  auto context = me.new_context();
  auto told = me.rank() == 0 ? future<tensor>() : me.group().recv(0);
  if (me.rank() == 0) {
    me.group().send(rows_of(1), 1);
    model(context, rows_of(2));
  }
  co_await std::move(told);
  throw error(error_kind::input, "the power has failed");
}

TEST(SynchronizedNorm, IsUnwoundWhenAnotherTrainerFails) {
  const auto held = std::make_shared<int>(0);
  expect_within(test::error_of(2, fail_beside, held), {"the power has failed"});
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace troupe::synchronized_norm_test
