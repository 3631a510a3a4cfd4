// Trainer functions with servers and trainers in one process, compared with the program's own trainer and closed forms.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "tests/library/arguments.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/library/places.hpp"
#include "troupe/troupe.hpp"

namespace troupe::training_test {
namespace {

using test::arguments;
using test::scale;

constexpr int epochs = 5;

task<> train_hybrid(trainer me, remote_module<nn::embedding_bag> embedding, optimizer_choice choice) {
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(choice, embedding, model);
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const auto& [indices, offsets, target] : tutorial_batches(me.seed(), me.rank(), epoch)) {
      auto context = me.new_context();
      auto rows = co_await embedding.forward(context, indices, offsets);
      auto loss = nn::cross_entropy(context, model(context, rows), target);
      co_await context.backward(loss);
      co_await optimizer.step(context);
    }
}

constexpr nn::embedding_bag::options tutorial_table{
    .num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum};

std::string digest_of_program(const std::vector<model::setting>& settings) {
  std::vector<model::setting> all = {{"data", "tutorial"}, {"epochs", std::to_string(epochs)}};
  all.insert(all.end(), settings.begin(), settings.end());
  const auto run = nodes::run_job(model::parse_job(all).value(), {}, nullptr);
  return run.value().weights_digest;
}

std::string digest_of_library(arguments given, std::uint32_t trainers, const optimizer_choice& choice) {
  cluster cluster(given.count(), given.values());
  const auto embedding = cluster.server(0).make<nn::embedding_bag>(tutorial_table);
  const run_summary run = cluster.run(trainers, train_hybrid, embedding, choice);
  EXPECT_EQ(run.steps, 10U * epochs);
  return run.weights_digest;
}

TEST(Training, HasTheProgramsBits) {
  const std::string expected = digest_of_program({{"seed", "1"}});
  EXPECT_EQ(digest_of_library({}, 2, sgd{.lr = 0.05}), expected);
  EXPECT_EQ(digest_of_library({"--threads", "1"}, 2, sgd{.lr = 0.05}), expected);
  EXPECT_EQ(digest_of_library({"--threads", "4", "--servers", "2"}, 2, sgd{.lr = 0.05}), expected);
}

TEST(Training, HasTheProgramsBitsWithOtherSeedsTrainersAndOptimizers) {
  EXPECT_EQ(digest_of_library({"--seed", "7"}, 3, sgd{.lr = 0.05}),
            digest_of_program({{"seed", "7"}, {"trainers", "3"}}));
  EXPECT_EQ(
      digest_of_library({}, 2, adam{.lr = 0.01}),
      digest_of_program(
          {{"dense-optimizer", "adam"}, {"sparse-optimizer", "adam"}, {"dense-lr", "0.01"}, {"sparse-lr", "0.01"}}));
  EXPECT_EQ(digest_of_library({}, 2, sgd{.lr = 0.05, .momentum = 0.9}),
            digest_of_program({{"dense-optimizer", "sgd:momentum=0.9"}, {"sparse-optimizer", "sgd:momentum=0.9"}}));
}

// -- a user's layer -------------------------------------------------------------------

/// Two classes; rank r has one sample, with both features r + 1, of class r.
struct by_hand {
  std::vector<double> weights = {1, 1};

  /// Applies the layer `passes` times. The gradient of softmax cross-entropy is p - [class].
  void step(int passes, double lr) {
    std::vector<double> gradient(2);
    for (int rank = 0; rank < 2; ++rank) {
      const double x = rank + 1;
      std::vector<double> y(2);
      for (int k = 0; k < 2; ++k) y[k] = std::pow(weights[k], passes) * x;
      const double sum = std::exp(y[0]) + std::exp(y[1]);
      for (int k = 0; k < 2; ++k) {
        const double of_y = std::exp(y[k]) / sum - (k == rank ? 1 : 0);
        gradient[k] += of_y * passes * std::pow(weights[k], passes - 1) * x / 2;
      }
    }
    for (int k = 0; k < 2; ++k) weights[k] -= lr * gradient[k];
  }
};

task<> train_scale(trainer me, int passes, std::vector<float>* weights) {
  auto model = me.data_parallel(scale(2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, model);
  const std::vector<std::int64_t> target = {me.rank()};
  for (int step = 0; step < 20; ++step) {
    auto context = me.new_context();
    const std::vector<float> features(2, static_cast<float>(me.rank() + 1));
    tensor x = tensor::of<float>({1, 2}, features);
    for (int pass = 0; pass < passes; ++pass) x = model(context, x);
    co_await context.backward(nn::cross_entropy(context, x, target));
    co_await optimizer.step(context);
  }
  if (me.rank() == 1) *weights = model.parameters();
}

TEST(Training, TakesALayerOfOnesOwn) {
  for (const int passes : {1, 2, 3}) {
    test::made_cluster cluster;
    std::vector<float> weights;
    cluster.run(2, train_scale, passes, &weights);
    by_hand expected;
    for (int step = 0; step < 20; ++step) expected.step(passes, 0.5);
    ASSERT_EQ(weights.size(), 2U);
    for (int k = 0; k < 2; ++k) EXPECT_NEAR(weights[k], expected.weights[k], 1e-5) << passes << " passes";
  }
}

// -- uneven ends ----------------------------------------------------------------------

task<> train_unevenly(trainer me, std::vector<float>* weights) {
  auto model = me.data_parallel(scale(2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, model);
  const std::vector<std::int64_t> target = {0};
  const std::vector<float> features = {1, 1};
  for (int step = 0; step < 4; ++step) {
    auto context = me.new_context();
    if (me.rank() == 0 || step < 2)  // rank 1 has no more data, and counts in no mean
      co_await context.backward(
          nn::cross_entropy(context, model(context, tensor::of<float>({1, 2}, features)), target));
    co_await optimizer.step(context);
  }
  if (me.rank() == 1) *weights = model.parameters();
}

TEST(Training, CountsOnlyTrainersWithABatch) {
  test::made_cluster cluster;
  std::vector<float> weights;
  cluster.run(2, train_unevenly, &weights);
  // Both have the same sample, so the mean is the same with one trainer or two.
  std::vector<double> expected = {1, 1};
  for (int step = 0; step < 4; ++step) {
    const double p = std::exp(expected[0]) / (std::exp(expected[0]) + std::exp(expected[1]));
    expected[0] -= 0.5 * (p - 1);
    expected[1] -= 0.5 * (1 - p);
  }
  ASSERT_EQ(weights.size(), 2U);
  for (int k = 0; k < 2; ++k) EXPECT_NEAR(weights[k], expected[k], 1e-5);
}

// -- errors ---------------------------------------------------------------------------

/// Returns the error of a run of `function`.
template <class Function, class... More>
std::string error_of(Function function, std::uint32_t trainers, More... more) {
  test::made_cluster cluster;
  const auto embedding = cluster.server(0).make<nn::embedding_bag>(tutorial_table);
  return test::error_of([&] { cluster.run(trainers, function, embedding, more...); });
}

task<> throw_at(trainer me, remote_module<nn::embedding_bag>, int at) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{}, model);
  for (int step = 1; step <= 5; ++step) {
    auto context = me.new_context();
    if (me.rank() == 1 && step == at) throw std::runtime_error("the disk is full");
    co_await optimizer.step(context);
  }
}

TEST(TrainingErrors, HaveTheTextOfTheUsersExceptionWithTrainerAndStep) {
  EXPECT_EQ(error_of(throw_at, 2, 3), "trainer 1, step 3: the disk is full");
}

task<> return_early(trainer me, remote_module<nn::embedding_bag> embedding, bool with_replica) {
  std::optional<data_parallel> model;
  std::optional<distributed_optimizer> optimizer;
  if (with_replica)
    optimizer.emplace(sgd{}, model.emplace(me.data_parallel(nn::linear(2, 2))), embedding);
  else
    optimizer.emplace(sgd{}, embedding);
  const std::vector<std::int64_t> ones = {1};
  const std::vector<std::int64_t> offsets = {0};
  for (int step = 1; step <= (me.rank() == 0 ? 3 : 9); ++step) {
    auto context = me.new_context();
    co_await embedding.forward(context, ones, offsets);
    co_await optimizer->step(context);
  }
}

TEST(TrainingErrors, NameATrainerThatReturnsBeforeTheOthers) {
  for (const bool with_replica : {true, false})
    EXPECT_EQ(
        test::without_places(error_of(return_early, 2, with_replica)),
        "trainer 1, step 4: trainer 0 has returned after step 3; all trainers take as many steps, and one without "
        "data takes them with an empty context; trainer 1 has taken step 4");
}

/// Trainer 0 takes one step less, and returns long after trainer 1, which never has to wait.
task<> return_last(trainer me, remote_module<nn::embedding_bag> embedding, std::atomic<bool>* other_has_returned) {
  distributed_optimizer optimizer(sgd{}, embedding);
  const std::vector<std::int64_t> ones = {1};
  const std::vector<std::int64_t> offsets = {0};
  for (int step = 1; step <= (me.rank() == 0 ? 3 : 4); ++step) {
    auto context = me.new_context();
    co_await embedding.forward(context, ones, offsets);
    co_await optimizer.step(context);
  }
  if (me.rank() == 1) *other_has_returned = true;
  for (int after = 0; me.rank() == 0 && after < 100; after += *other_has_returned ? 1 : 0)
    co_await embedding.rows(ones, offsets);
}

TEST(TrainingErrors, NameATrainerThatReturnsAfterTheOthersWithFewerSteps) {
  std::atomic<bool> other_has_returned = false;
  EXPECT_EQ(test::without_places(error_of(return_last, 2, &other_has_returned)),
            "trainer 1, step 4: trainer 0 has returned after step 3; all trainers take as many steps, and one without "
            "data takes them with an empty context; trainer 1 has taken step 4");
}

task<> look_up(trainer me, remote_module<nn::embedding_bag> embedding, std::int64_t index) {
  auto context = me.new_context();
  const std::vector<std::int64_t> indices = {1, index};
  const std::vector<std::int64_t> offsets = {0};
  co_await embedding.forward(context, indices, offsets);
}

TEST(TrainingErrors, NameAnIndexOutOfRange) {
  EXPECT_EQ(error_of(look_up, 1, 100),
            "trainer 0, step 1: embedding_bag.forward of table 0 on server 0: indices: index 100 in sample 0: must be "
            "between 0 and 99, the table has 100 rows");
}

task<> mix_contexts(trainer me, remote_module<nn::embedding_bag> embedding) {
  auto model = me.data_parallel(nn::linear(16, 8));
  auto first = me.new_context();
  auto second = me.new_context();
  const std::vector<std::int64_t> ones = {1};
  const std::vector<std::int64_t> offsets = {0};
  const auto rows = co_await embedding.forward(first, ones, offsets);
  model(second, rows);
}

TEST(TrainingErrors, NameATensorOfAnotherContext) {
  const std::string text = error_of(mix_contexts, 1);
  EXPECT_NE(text.find("a tensor [1, 16] that another context has computed"), std::string::npos) << text;
}

task<> disagree(trainer me, remote_module<nn::embedding_bag> embedding) {
  distributed_optimizer optimizer(sgd{.lr = me.rank() == 0 ? 0.1 : 0.2}, embedding);
  auto context = me.new_context();
  co_await optimizer.step(context);
  auto next = me.new_context();
  const std::vector<std::int64_t> ones = {1};
  const std::vector<std::int64_t> offsets = {0};
  co_await embedding.forward(next, ones, offsets);
}

TEST(TrainingErrors, NameOptimizersThatDisagree) {
  const std::string text = error_of(disagree, 2);
  EXPECT_NE(text.find("server 0"), std::string::npos) << text;
  EXPECT_NE(text.find("table 0 (embedding_bag [100, 16]): the optimizer "), std::string::npos) << text;
  EXPECT_NE(text.find("another trainer has chosen"), std::string::npos) << text;
}

/// Trainer 0's second lookup waits for trainer 1's first step, which trainer 1 takes only once the lookup is late.
task<> look_up_in_time(trainer me, remote_module<nn::embedding_bag> embedding) {
  distributed_optimizer optimizer(sgd{.lr = 0.1}, embedding);
  const std::vector<std::int64_t> ones = {1};
  const std::vector<std::int64_t> offsets = {0};
  auto first = me.new_context();
  const auto patient = embedding.with_deadline(std::chrono::minutes(5));
  const tensor initial = co_await patient.forward(first, ones, offsets);
  EXPECT_EQ(initial.shape(), shape(1, 16));
  if (me.rank() == 1) co_await me.group().recv(0);
  co_await optimizer.step(first);
  if (me.rank() == 1) co_return;
  auto second = me.new_context();
  const auto impatient = embedding.with_deadline(std::chrono::milliseconds(20));
  try {
    co_await impatient.forward(second, ones, offsets);
    ADD_FAILURE() << "rows of a step that is not over";
  } catch (const error& e) {
    EXPECT_STREQ(e.what(), "embedding_bag.forward of table 0 on server 0 did not return within 0.02 s");
    EXPECT_EQ(e.kind(), error_kind::deadline);
  }
  me.group().send(initial, 1);
  const tensor rows = co_await embedding.forward(second, ones, offsets);
  EXPECT_EQ(rows.as<float>()[0], initial.as<float>()[0]);
}

TEST(TrainingErrors, NameALookupThatIsLate) { EXPECT_EQ(error_of(look_up_in_time, 2), "no error"); }

task<> spoil(trainer me, remote_module<nn::embedding_bag>) {
  auto model = me.data_parallel(nn::linear(2, 2));
  auto context = me.new_context();
  const std::vector<float> bad = {std::nanf(""), 1};
  const std::vector<std::int64_t> target = {0};
  co_await context.backward(nn::cross_entropy(context, model(context, tensor::of<float>({1, 2}, bad)), target));
}

TEST(TrainingErrors, NameALossThatIsNotANumber) {
  EXPECT_EQ(
      error_of(spoil, 1),
      "trainer 0, step 1: the loss is NaN: the input of linear has NaN in sample 0 (number 0 of 2); it was given so: "
      "look at the data");
}

task<> fit_badly(trainer me, remote_module<nn::embedding_bag>) {
  auto model = me.data_parallel(nn::linear(3, 2));
  auto context = me.new_context();
  const std::vector<float> two = {1, 1};
  model(context, tensor::of<float>({1, 2}, two));
  co_return;
}

TEST(TrainingErrors, NameShapesThatDoNotFit) {
  EXPECT_EQ(error_of(fit_badly, 1),
            "trainer 0, step 1: linear: takes [n, 3] of float32 with n at least 1, not [1, 2] of float32");
}

TEST(ClusterErrors, NameWrongServersAndArguments) {
  test::made_cluster cluster({"--servers", "2"});
  EXPECT_ERROR(cluster.server(2), "server 2: there are 2; begin the program with --servers 3");
  arguments of_one{};
  troupe::cluster with_one(of_one.count(), of_one.values());
  EXPECT_ERROR(with_one.server(9), "server 9: there is 1; begin the program with --servers 10");
  EXPECT_THROW(cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 0, .embedding_dim = 4}), error);
  arguments wrong{"--hidden", "8"};
  EXPECT_THROW(troupe::cluster(wrong.count(), wrong.values()), error);
}

TEST(Cluster, TakesAnAddressToListenAt) {
  ::setenv("TROUPE_TOKEN", "a token of the test, 0123456789", 1);
  arguments given{"--listen", "127.0.0.1:0", "--quiet"};
  EXPECT_NO_THROW(troupe::cluster(given.count(), given.values()));
  ::unsetenv("TROUPE_TOKEN");
}

/// An unfinished layer: it has no backward pass.
class without_backward : public nn::module {
 public:
  std::string type() const override { return "without_backward"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& /*numbers*/) const override {}
};

template <class Module>
constexpr bool can_be_made = requires {
  Module();
};

TEST(TrainingErrors, ALayerWithoutBackwardDoesNotCompile) {
  static_assert(can_be_made<nn::relu>);
  static_assert(!can_be_made<without_backward>);
}

task<> do_nothing(trainer /*me*/) { co_return; }

TEST(ClusterErrors, ARunComesOnce) {
  test::made_cluster cluster;
  EXPECT_EQ(cluster.run(2, do_nothing).steps, 0U);
  EXPECT_THROW(cluster.run(2, do_nothing), error);
}

}  // namespace
}  // namespace troupe::training_test
