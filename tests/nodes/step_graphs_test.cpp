// Whole runs whose steps are CUDA graphs: no bit of weights and losses differs from runs without graphs, whatever
// happens between steps; and which calls go to the device individually.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/common/faults.hpp"
#include "cluster/nodes/run_job.hpp"
#include "model/checkpoint/resume.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/needs_device.hpp"
#include "tests/model/temporary_file.hpp"
#include "tests/trace/temporary_folder.hpp"

namespace troupe::nodes::step_graphs_test {
namespace {

using emulated_cuda::counts_so_far;
using settings = std::vector<model::setting>;

constexpr std::uint64_t steps = 30;
constexpr const char* dropout_layers =
    R"([{"kind": "linear", "out": 8}, {"kind": "relu"}, {"kind": "dropout", "rate": 0.3},
                                           {"kind": "linear", "out": 2}])";

/// Records the counts of each step once its gradient is complete.
class step_counts final : public actors::fault_injector {
 public:
  step_counts() { actors::install_faults(this); }
  ~step_counts() override { actors::install_faults(nullptr); }

  bool skips_reduce(std::uint32_t /*rank*/, std::uint64_t step, std::uint32_t /*bucket*/) override {
    const std::lock_guard lock(mutex_);
    at_[step] = emulated_cuda::counts_now().value_or(counts_so_far());
    return false;
  }

  counts_so_far at(std::uint64_t step) { return at_.at(step); }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, counts_so_far> at_;
};

/// Rows with a number, a category and a list; no two batches have the same number of indices.
std::string csv_text(int rows) {
  std::string text = "clicked,age,city,tags\n";
  for (int row = 0; row < rows; ++row)
    text += fmt::format("{},{},c{},{}\n", row % 3 == 0 ? 1 : 0, row % 9, row * 7 % 23, row % 5 < 2 ? "" : "a|b|c");
  return text;
}

settings csv_settings(const std::string& path) {
  return {{"data", "csv:" + path},
          {"columns", R"([{"name": "clicked", "kind": "label"}, {"name": "age", "kind": "numeric"},
                          {"name": "city", "kind": "categorical"},
                          {"name": "tags", "kind": "multi", "vocabulary": ["a", "b", "c"]}])"},
          {"rows", "100"},
          {"batch-size", "32"}};
}

/// A run's results.
struct outcome {
  std::string error = {};
  std::string digest = {};
  std::uint64_t steps = 0;
  std::vector<double> losses = {};
  std::vector<double> test_losses = {};

  bool operator==(const outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const outcome& one) {
  out << one.steps << " steps, " << one.digest << ' ' << one.error << ", losses";
  for (const double loss : one.losses) out << ' ' << loss;
  return out;
}

class StepGraphRunsGpu : public needs_device {
 protected:
  void SetUp() override {
    needs_device::SetUp();
    options_.devices.numbers = {0};
    options_.devices.trainers = options_.devices.servers = true;
    options_.threads = 1;
  }

  /// Adds the defaults of these tests to a job's settings.
  static settings with(settings more) {
    const auto has = [&](const char* name) {
      return std::ranges::find(more, name, &model::setting::first) != more.end();
    };
    settings defaults = {{"trainers", "1"}};
    if (!has("layers")) defaults.emplace_back("hidden", "8");
    if (!has("epochs")) defaults.emplace_back("steps", std::to_string(steps));
    if (!has("epochs")) defaults.emplace_back("eval-every", "0");
    if (!has("data"))
      for (const char* sized : {"data=synthetic", "rows=500", "dim=4", "bag=8", "batch-size=32"})
        defaults.emplace_back(std::string(sized, std::strchr(sized, '=')), std::strchr(sized, '=') + 1);
    for (const model::setting& one : defaults)
      if (!has(one.first.c_str())) more.push_back(one);
    return more;
  }

  outcome run(const settings& more, bool in_graphs, const stop_request* stop = nullptr) {
    const auto what = model::parse_job(with(more));
    if (!what) return {.error = what.error().message};
    run_options options = options_;
    options.devices.step_graphs = in_graphs;
    outcome made;
    options.observer.on_epoch = [&](const actors::epoch_summary& one) {
      made.losses.insert(made.losses.end(), one.losses.at(0).begin(), one.losses.at(0).end());
      if (one.figures.test_loss) made.test_losses.push_back(*one.figures.test_loss);
      if (on_epoch_) on_epoch_(one);
    };
    const auto done = run_job(*what, options, stop);
    if (!done) return {.error = done.error().message, .losses = made.losses};
    made.digest = done->weights_digest;
    made.steps = done->steps;
    return made;
  }

  void expect_the_same(const settings& more) {
    const std::string text = testing::PrintToString(more);
    const auto direct_calls = [] { return emulated_cuda::counts_now().value_or(counts_so_far()).direct_calls; };
    const std::uint64_t before = direct_calls();
    const outcome plain = run(more, false);
    const std::uint64_t between = direct_calls();
    EXPECT_EQ(run(more, true), plain) << text;
    EXPECT_EQ(plain.error, "") << text;
    EXPECT_FALSE(plain.losses.empty());
    if (emulated_cuda::counts_now()) {
      EXPECT_LT(direct_calls() - between, between - before) << text << ": no step was a graph";
    }
  }

  run_options options_;
  std::function<void(const actors::epoch_summary&)> on_epoch_;
};

TEST_F(StepGraphRunsGpu, HaveTheSameBitsWhateverTheOptions) {
  for (const settings& how : std::vector<settings>{
           {},
           {{"tables", "2"}},
           {{"tables", "7"}, {"batch-size", "17"}, {"bag", "3"}},
           {{"hidden", "none"}},
           {{"dense-optimizer", "adam"}, {"sparse-optimizer", "lazy-adam"}, {"lr-schedule", "warmup:4+cosine:20"}},
           {{"dense-optimizer", "sgd:momentum=0.9"}, {"sparse-optimizer", "rowwise-adagrad"}, {"row-dtype", "bf16"}},
           {{"sparse-optimizer", "adagrad"}, {"row-dtype", "f16"}, {"lr-schedule", "step:3,0.5"}},
           {{"sparse-optimizer", "adam"}},
           {{"layers", dropout_layers}},
           {{"layers", R"([{"kind": "linear", "out": 8}, {"kind": "batch_norm"}, {"kind": "relu"},
                           {"kind": "linear", "out": 2}])"}},
           {{"matmul-precision", "bf16"}, {"hidden", "16,8"}},
           {{"consistency", "ssp:2"}},
           {{"micro-batches", "4"}},
           {{"interaction", "dot"}, {"tables", "3"}},
       })
    expect_the_same(how);
}

TEST_F(StepGraphRunsGpu, HaveTheSameBitsThroughEpochsAndEvaluations) {
  expect_the_same({{"steps", "250"}, {"eval-every", "1"}});
  // Batches of several sizes.
  expect_the_same({{"data", "tutorial"}, {"epochs", "5"}, {"eval-every", "1"}});
  expect_the_same({{"data", "tutorial"}, {"epochs", "5"}, {"eval-every", "0"}});
}

TEST_F(StepGraphRunsGpu, HaveTheSameBitsOnRowsOfAFile) {
  const model::temporary_file rows(csv_text(300));
  settings how = csv_settings(rows.path());
  for (const model::setting& one : settings{{"epochs", "4"}, {"test-fraction", "0.2"}, {"eval-every", "2"}})
    how.push_back(one);
  expect_the_same(how);
}

TEST_F(StepGraphRunsGpu, SaveAndGoOnWithTheSameBits) {
  const settings sized = {{"tables", "2"}, {"sparse-optimizer", "lazy-adam"}, {"dense-optimizer", "adam"}};
  const outcome whole = run(sized, false);
  const auto until = [&](const std::string& last, const std::string& folder, bool in_graphs, bool resumes) {
    settings all = sized;
    all.emplace_back("steps", last);
    run_options before = options_;
    std::optional<model::resume_point> from;
    if (resumes) from = *model::newest_whole_checkpoint(folder);
    auto store = model::checkpoint_store::open(folder, from ? &*from : nullptr);
    EXPECT_TRUE(store) << store.error().message;
    options_.checkpoints.store = std::make_shared<model::checkpoint_store>(std::move(*store));
    options_.checkpoints.every = 7;
    if (from) options_.checkpoints.from = std::make_shared<const model::checkpoint>(from->what);
    const outcome made = run(all, in_graphs);
    options_ = before;
    return made;
  };
  for (const bool first : {false, true}) {
    const trace::temporary_folder folder;
    EXPECT_EQ(until("17", folder.path(), first, false).steps, 17U);
    const outcome rest = until(std::to_string(steps), folder.path(), true, true);
    EXPECT_EQ(rest.digest, whole.digest);
    EXPECT_EQ(rest.error, "");
  }
}

/// The loss of the previous step is read only when the next step but one begins.
TEST_F(StepGraphRunsGpu, NameTheStepOfANan) {
  const settings diverging = {
      {"loss", "mse"}, {"dense-optimizer", "sgd"}, {"dense-lr", "1000000"}, {"sparse-lr", "1000000"}};
  const std::string error = run(diverging, true).error;
  EXPECT_EQ(error, "trainer 0, step 3: the loss is NaN; try a smaller learning rate (--dense-lr, --sparse-lr)");
  EXPECT_EQ(error, run(diverging, false).error);
  const settings late = {{"loss", "mse"}, {"dense-optimizer", "sgd"}, {"dense-lr", "60"}, {"sparse-lr", "60"}};
  EXPECT_EQ(run(late, true).error, run(late, false).error);
}

TEST_F(StepGraphRunsGpu, StopAndRunAgain) {
  stop_request stop;
  on_epoch_ = [&](const actors::epoch_summary& one) {
    if (one.epoch == 2) stop.request();
  };
  const outcome stopped = run({{"steps", "2000"}}, true, &stop);
  EXPECT_EQ(stopped.error, "");
  EXPECT_GE(stopped.steps, 200U);
  EXPECT_LT(stopped.steps, 2000U);
  on_epoch_ = nullptr;
  expect_the_same({{"steps", std::to_string(stopped.steps)}});
}

TEST_F(StepGraphRunsGpu, AskForOneLaunchAStep) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts";
  constexpr std::uint64_t first = 12;
  constexpr std::uint64_t last = 28;
  const model::temporary_file rows(csv_text(32 * 40));
  for (const settings& how : std::vector<settings>{
           {{"tables", "1"}},
           {{"tables", "2"}},
           {{"tables", "7"}},
           {{"layers", dropout_layers}},
           {{"dense-optimizer", "adam"}, {"sparse-optimizer", "lazy-adam"}, {"lr-schedule", "warmup:20"}},
           csv_settings(rows.path()),
       }) {
    step_counts counts;
    const outcome made = run(how, true);
    ASSERT_EQ(made.error, "");
    const counts_so_far from = counts.at(first);
    const counts_so_far to = counts.at(last);
    const std::string text = testing::PrintToString(how);
    EXPECT_EQ(to.graphs - from.graphs, last - first) << text;
    EXPECT_EQ(to.direct_calls - from.direct_calls, 0U) << text;
    EXPECT_EQ(to.waits - from.waits, last - first) << text;
    EXPECT_EQ(to.graphs_ahead - from.graphs_ahead, last - first) << text << ": a graph is always under way";
    EXPECT_EQ(to.graphs_made - from.graphs_made, 0U) << text << ": the graphs of all steps are alike";
  }
}

TEST_F(StepGraphRunsGpu, AreRefusedWhereTheHostNeedsNumbersWithinAStep) {
  const auto refusal = [this](const settings& how) { return run(how, true).error; };
  const auto says = [](const std::string& text, const char* part) {
    return text.starts_with("--step-graph on: ") && text.find(part) != std::string::npos;
  };
  EXPECT_PRED2(says, refusal({{"trainers", "2"}}), "--trainers 1");
  EXPECT_PRED2(says, refusal({{"servers", "2"}}), "--servers 1");
  EXPECT_PRED2(says, refusal({{"elastic", "1:2"}, {"memberships", "0:1,20:2"}}), "--elastic");
  EXPECT_PRED2(says, refusal({{"clip-norm", "1"}}), "--clip-norm");
  EXPECT_PRED2(says, refusal({{"nan", "skip"}}), "--nan skip");
  EXPECT_PRED2(says, refusal({{"accumulate", "2"}}), "--accumulate 1");
  EXPECT_PRED2(says, refusal({{"consistency", "async"}}), "--consistency async");
  EXPECT_PRED2(says, refusal({{"wire-dtype", "bf16"}}), "--wire-dtype f32");
  options_.devices.servers = false;
  EXPECT_PRED2(says, refusal({}), "--device cuda");
}

}  // namespace
}  // namespace troupe::nodes::step_graphs_test
