// Checkpoints of users' programs: an interrupted and resumed run has the bits of the unbroken one.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/arguments.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::resume_test {
namespace {

using test::arguments;

/// A program's own metric: the sum of all losses.
struct loss_sum {
  double sum = 0;
  named_tensors state_dict() const { return {{"sum", tensor::of(shape(1), std::span<const double>(&sum, 1))}}; }
  void load_state_dict(const named_tensors& state) { sum = state.at(0).second.as<double>()[0]; }
};

struct outcome {
  std::string digest;
  std::vector<double> losses;  // by rank
};

/// Rank 0 throws after `break_after` steps; 0: never.
struct training {
  int break_after = 0;
  optimizer_choice choice = sgd{.lr = 0.05};
  outcome* result = nullptr;
};

task<> train(trainer me, remote_module<nn::embedding_bag> embedding, training how) {
  loss_sum sum;
  me.register_state("losses", sum);
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(how.choice, embedding, model);
  int steps = 0;
  for (const auto epoch : me.steps(3))
    for (const auto& [indices, offsets, target] : me.batches(tutorial_batches(me.seed(), me.rank(), epoch))) {
      auto context = me.new_context();
      auto rows = co_await embedding.forward(context, indices, offsets);
      auto loss = nn::cross_entropy(context, model(context, rows), target);
      sum.sum += loss.item();
      co_await context.backward(loss);
      co_await optimizer.step(context);
      if (++steps == how.break_after && me.rank() == 0) throw std::runtime_error("the power has failed");
    }
  how.result->losses.at(me.rank()) = sum.sum;
}

constexpr nn::embedding_bag::options table{.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum};

outcome run(std::vector<std::string> text, training how) {
  test::made_cluster cluster(std::move(text));
  const auto embedding = cluster.server(0).make<nn::embedding_bag>(table);
  outcome result{"", std::vector<double>(2)};
  how.result = &result;
  result.digest = cluster.run(2, train, embedding, how).weights_digest;
  return result;
}

// -- a full disk ----------------------------------------------------------------------

/// Limits files to 256 bytes during its lifetime.
class full_disk {
 public:
  full_disk() : ignored_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = 256;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~full_disk() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, ignored_);
  }
  full_disk(const full_disk&) = delete;

 private:
  rlimit before_{};
  void (*ignored_)(int);
};

task<> train_on_full_disk(trainer me, int full_until, std::unique_ptr<full_disk>* disk) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  for (const auto step : me.steps(8)) {
    if (step == static_cast<std::uint64_t>(full_until)) disk->reset();
    auto context = me.new_context();
    const std::vector<float> numbers = {1, 2};
    const std::vector<std::int64_t> classes = {1};
    const tensor x = tensor::of<float>({1, 2}, numbers);
    co_await context.backward(nn::cross_entropy(context, model(context, x), classes));
    co_await optimizer.step(context);
  }
}

std::string run_on_full_disk(int full_until) {
  const trace::temporary_folder folder;
  test::made_cluster cluster({"--quiet", "--save", folder.path().string(), "--checkpoint-every", "2"});
  auto disk = std::make_unique<full_disk>();
  try {
    return cluster.run(1, train_on_full_disk, full_until, &disk).weights_digest;
  } catch (const error& e) {
    return e.what();
  }
}

TEST(ResumeOnAFullDisk, ARunThatIsNotSavedAtItsEndThrows) {
  EXPECT_EQ(run_on_full_disk(100), "the run is over, but not saved: there is no checkpoint of step 8");
}

TEST(ResumeOnAFullDisk, ARunWhoseLastCheckpointIsThereDoesNot) {
  EXPECT_EQ(run_on_full_disk(5).size(), 16U) << "a digest";
}

class Resume : public testing::TestWithParam<optimizer_choice> {};

TEST_P(Resume, HasTheBitsOfTheUnbrokenRun) {
  const trace::temporary_folder folder;
  const outcome unbroken = run({}, {.choice = GetParam()});
  const std::vector<std::string> saving = {"--save", folder.path().string(), "--checkpoint-every", "4"};
  EXPECT_THROW(run(saving, {.break_after = 15, .choice = GetParam()}), error);
  std::vector<std::string> resuming = saving;
  resuming.insert(resuming.end(), {"--resume", folder.path().string()});
  EXPECT_THROW(run(resuming, {.break_after = 7, .choice = GetParam()}), error);
  const outcome resumed = run(resuming, {.choice = GetParam()});
  EXPECT_EQ(resumed.digest, unbroken.digest);
  EXPECT_EQ(resumed.losses, unbroken.losses) << "state that the program keeps";
  const outcome over = run({"--resume", folder.path().string()}, {.choice = GetParam()});
  EXPECT_EQ(over.digest, unbroken.digest) << "nothing is left to do";
  EXPECT_EQ(over.losses, unbroken.losses);
}

task<> train_epochs(trainer me, std::uint64_t epochs) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(adam{.lr = 0.01}, model);
  for (const auto epoch : me.steps(epochs))
    for (const auto step : me.steps(3)) {
      auto context = me.new_context();
      const std::vector<float> numbers = {static_cast<float>(step + epoch), 2};
      const std::vector<std::int64_t> classes = {1};
      const tensor x = tensor::of<float>({1, 2}, numbers);
      co_await context.backward(nn::cross_entropy(context, model(context, x), classes));
      co_await optimizer.step(context);
    }
}

/// Returns the run's digest and steps, or its error. `free`: the number of epochs may change.
std::string run_epochs(std::vector<std::string> text, bool free) {
  arguments given(std::move(text));
  std::uint64_t epochs = 2;
  const option plain("epochs", epochs, "how many");
  cluster cluster(given.count(), given.values(), {free ? plain.may_change_on_resume() : plain});
  try {
    const run_summary done = cluster.run(1, train_epochs, epochs);
    return done.weights_digest + " " + std::to_string(done.steps);
  } catch (const error& e) {
    return e.what();
  }
}

TEST(ResumeWithOtherOptions, GoesOnIfTheProgramSaysThatItMay) {
  const trace::temporary_folder folder;
  const std::string saved = folder.path().string();
  const std::string unbroken = run_epochs({"--epochs", "5"}, true);
  EXPECT_NE(run_epochs({"--save", saved}, true), unbroken);
  EXPECT_EQ(run_epochs({"--resume", saved, "--epochs", "5"}, false),
            "--epochs 5: the run of the checkpoint has --epochs 2; continue with the same job, or start anew without "
            "--resume; if --epochs decides nothing of what has been computed, let the program say so: "
            "option(\"epochs\", ...).may_change_on_resume()");
  EXPECT_EQ(run_epochs({"--resume", saved, "--save", saved, "--epochs", "5"}, true), unbroken);
  EXPECT_EQ(run_epochs({"--resume", saved, "--epochs", "5"}, false), unbroken) << "nothing is left to do";
}

TEST(ResumeByTime, CheckpointsChangeNothingAndAreGoneOnFrom) {
  const trace::temporary_folder folder;
  const outcome unbroken = run({}, {});
  std::vector<std::string> text = {"--save", folder.path().string(), "--checkpoint-seconds", "0.000001"};
  EXPECT_THROW(run(text, {.break_after = 7}), error);
  text.insert(text.end(), {"--resume", folder.path().string()});
  const outcome resumed = run(text, {});
  EXPECT_EQ(resumed.digest, unbroken.digest);
  EXPECT_EQ(resumed.losses, unbroken.losses);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Resume,
                         testing::Values(sgd{.lr = 0.05}, sgd{.lr = 0.05, .momentum = 0.9}, adagrad{.lr = 0.05},
                                         adam{.lr = 0.01}),
                         [](const auto& one) {
                           const std::string& name = one.param.name;
                           return name.substr(0, name.find(':')) + std::to_string(one.index);
                         });

/// A layer on a server, after one on each trainer.
task<> train_hosted(trainer me, remote_module<nn::linear> hosted, int break_after) {
  auto model = me.data_parallel(nn::linear(4, 3), {.name = "first"});
  distributed_optimizer optimizer(adam{.lr = 0.01}, hosted, model);
  int steps = 0;
  for (const auto step : me.steps(12)) {
    tensor x({2, 4});
    for (std::size_t i = 0; i < x.count(); ++i)
      x.as<float>()[i] = static_cast<float>((step * 7 + i * 3 + me.rank()) % 11) / 11;
    const std::vector<std::int64_t> classes = {static_cast<std::int64_t>(step % 2), 1};
    auto context = me.new_context();
    const tensor hidden = model(context, x);
    const tensor outputs = co_await hosted.forward(context, hidden);
    co_await context.backward(nn::cross_entropy(context, outputs, classes));
    co_await optimizer.step(context);
    if (++steps == break_after && me.rank() == 0) throw std::runtime_error("the power has failed");
  }
}

std::string run_hosted(std::vector<std::string> text, int break_after = 0) {
  test::made_cluster cluster(std::move(text));
  const auto hosted = cluster.server(0).make<nn::linear>({.in_features = 3, .out_features = 2});
  return cluster.run(2, train_hosted, hosted, break_after).weights_digest;
}

TEST(ResumeHosted, AModuleOnAServerGoesOnWithItsOptimizer) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const std::string unbroken = run_hosted({"--quiet"});
  EXPECT_THROW(run_hosted({"--quiet", "--save", there, "--checkpoint-every", "3"}, 8), error);
  EXPECT_EQ(run_hosted({"--quiet", "--resume", there}), unbroken);
}

// -- two phases -----------------------------------------------------------------------

/// Trains a layer, and then another one that is made after the first phase.
task<> two_phases(trainer me, int break_after, double* sum_of_second) {
  int steps = 0;
  const std::vector<float> numbers = {1, -1, 0.5F, 2};
  const std::vector<float> targets = {1, 0};
  const tensor x = tensor::of<float>({2, 2}, numbers);
  const tensor y = tensor::of<float>({2, 1}, targets);
  auto first = me.data_parallel(nn::linear(2, 1));
  distributed_optimizer of_first(adam{.lr = 0.01}, first);
  for ([[maybe_unused]] const auto step : me.steps(4)) {
    auto context = me.new_context();
    co_await context.backward(nn::mse_loss(context, first(context, x), y));
    co_await of_first.step(context);
    if (++steps == break_after) throw std::runtime_error("the power has failed");
  }
  auto second = me.data_parallel(nn::linear(2, 1));
  loss_sum sum;
  me.register_state("second", sum);
  distributed_optimizer of_second(adam{.lr = 0.02}, second);
  for ([[maybe_unused]] const auto step : me.steps(4)) {
    auto context = me.new_context();
    const tensor loss = nn::mse_loss(context, second(context, x), y);
    sum.sum += loss.item();
    co_await context.backward(loss);
    co_await of_second.step(context);
    if (++steps == break_after) throw std::runtime_error("the power has failed");
  }
  *sum_of_second = sum.sum;
}

TEST(ResumePhases, WhatIsMadeBeyondTheCheckpointBeginsAnew) {
  double expected = 0;
  const std::string unbroken = test::run_with({"--quiet"}, 1, two_phases, 0, &expected).weights_digest;
  for (const int break_after : {2, 4, 6}) {
    const trace::temporary_folder folder;
    const std::string there = folder.path().string();
    double sum = 0;
    EXPECT_THROW(
        test::run_with({"--quiet", "--save", there, "--checkpoint-every", "1"}, 1, two_phases, break_after, &sum),
        error);
    const std::string resumed = test::run_with({"--quiet", "--resume", there}, 1, two_phases, 0, &sum).weights_digest;
    EXPECT_EQ(resumed, unbroken) << "after " << break_after;
    EXPECT_EQ(sum, expected) << "after " << break_after;
  }
}

// -- errors ---------------------------------------------------------------------------

std::string refusal(const std::vector<std::string>& text, const training& how) {
  return test::input_error_of([&] { run(text, how); });
}

std::string clip(const std::vector<std::string>& text, const run_options& how) {
  return test::error_of([&] {
    test::made_cluster cluster(text);
    cluster.run(how, train_epochs, std::uint64_t{1});
  });
}

TEST(ResumeErrors, NameRunOptionsAsTheSourceDoes) {
  const trace::temporary_folder folder;
  const std::string saved = folder.path().string();
  EXPECT_EQ(clip({"--save", saved}, {.clip_norm = 2}), "no error");
  EXPECT_FINDS(clip({"--resume", saved}, {.clip_norm = 3}), "clip_norm 3: the run of the checkpoint has clip_norm 2; ");
  EXPECT_FINDS(clip({"--resume", saved}, {}), "no clip_norm: the run of the checkpoint has clip_norm 2; ");
  EXPECT_FINDS(clip({"--resume", saved}, {.trainers = 2, .clip_norm = 2}),
               "trainers 2: the run of the checkpoint has trainers 1; ");
  for (const char* dashed : {"--run-clip-norm", "--clip-norm", "--trainers"})
    EXPECT_EQ(clip({"--resume", saved}, {.trainers = 2, .clip_norm = 3}).find(dashed), std::string::npos);
}

TEST(ResumeErrors, NameWhatIsAnother) {
  const trace::temporary_folder folder;
  run({"--save", folder.path().string()}, {});
  EXPECT_EQ(
      refusal({"--resume", folder.path().string(), "--seed", "2"}, {}),
      "--seed 2: the run of the checkpoint has --seed 1; continue with the same job, or start anew without --resume");
  const std::string text = refusal({"--resume", folder.path().string()}, {.choice = adam{.lr = 0.05}});
  EXPECT_EQ(text.substr(text.find(',')),  // from the comma on: either trainer may be first
            ", step 30: --resume: the checkpoint has no float32 replica0.weight.state.0: it is of another program");
}

task<> train_without_loop(trainer me, remote_module<nn::embedding_bag> embedding, int steps) {
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(sgd{}, embedding, model);
  const auto batches = tutorial_batches(me.seed(), me.rank(), 0);
  if (steps > 0)
    for ([[maybe_unused]] const auto once : me.steps(1))
      for (int step = 0; step < steps; ++step) {
        auto context = me.new_context();
        auto rows = co_await embedding.forward(context, batches[0].indices, batches[0].offsets);
        auto loss = nn::cross_entropy(context, model(context, rows), batches[0].target);
        co_await context.backward(loss);
        co_await optimizer.step(context);
      }
  auto context = me.new_context();
  co_await optimizer.step(context);
}

std::string refused_loop(int steps, const std::string& folder) {
  test::made_cluster cluster({"--save", folder});
  const auto embedding = cluster.server(0).make<nn::embedding_bag>(table);
  return test::error_of([&] { cluster.run(1, train_without_loop, embedding, steps); });
}

TEST(ResumeErrors, NameAPlaceThatCannotBeFoundAgain) {
  const trace::temporary_folder folder, another;
  EXPECT_EQ(refused_loop(2, folder.path().string()),
            "trainer 0, step 2: --save: a second optimizer step in one iteration of trainer::steps or "
            "trainer::batches; take one in each iteration");
  EXPECT_EQ(refused_loop(0, another.path().string()),
            "trainer 0, step 1: --save: a checkpoint needs to know where the trainer function is; take the optimizer's "
            "steps in a loop of trainer::steps or trainer::batches");
}

}  // namespace
}  // namespace troupe::resume_test
