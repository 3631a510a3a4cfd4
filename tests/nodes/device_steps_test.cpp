// The cost of a step on a CUDA device for the host: how often it waits, how much it launches, which threads it wakes.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "actors/common/faults.hpp"
#include "actors/trainer/non_finite_watch.hpp"
#include "cluster/nodes/run_job.hpp"
#include "kernels/devices.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/needs_device.hpp"
#include "tests/value_of.hpp"

namespace troupe::nodes::device_steps_test {
namespace {

using emulated_cuda::counts_so_far;

constexpr std::uint64_t epoch_steps = 100;  // of synthetic data
constexpr std::uint64_t steps = 2 * epoch_steps;

/// Records the counts at the end of each of rank 0's steps, and lets another thread wait for a step.
class step_watch final : public actors::fault_injector {
 public:
  step_watch() { actors::install_faults(this); }
  ~step_watch() override { actors::install_faults(nullptr); }

  bool skips_reduce(std::uint32_t rank, std::uint64_t step, std::uint32_t /*bucket*/) override {
    if (rank != 0) return false;
    const std::lock_guard lock(mutex_);
    counts_[step] = emulated_cuda::counts_now().value_or(counts_so_far());
    reached_.notify_all();
    return false;
  }

  /// Returns false on a timeout.
  bool wait_for(std::uint64_t step) {
    std::unique_lock lock(mutex_);
    return reached_.wait_for(lock, std::chrono::seconds(60), [&] { return counts_.contains(step); });
  }

  counts_so_far at(std::uint64_t step) { return counts_.at(step); }
  std::uint64_t last() const { return counts_.empty() ? 0 : counts_.rbegin()->first; }

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  std::map<std::uint64_t, counts_so_far> counts_;
};

class DeviceStepsGpu : public needs_device {
 protected:
  void SetUp() override {
    needs_device::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    options_.devices.numbers = {0};
    options_.devices.trainers = options_.devices.servers = true;
    options_.threads = 1;
  }

  /// Even one table has 256 indices per step: with fewer, all could be of one row, which saves a launch.
  auto run(const std::map<std::string, std::string>& settings) {
    std::map<std::string, std::string> all = {
        {"data", "synthetic"}, {"rows", "500"},      {"dim", "4"},      {"hidden", "8"},
        {"bag", "8"},          {"batch-size", "32"}, {"trainers", "1"}, {"steps", std::to_string(steps)},
        {"eval-every", "0"}};
    for (const auto& [name, value] : settings) all[name] = value;
    const auto job = model::parse_job({all.begin(), all.end()});
    EXPECT_TRUE(job) << job.error().message;
    return run_job(*job, options_, nullptr);
  }

  void train(const std::map<std::string, std::string>& settings) {
    const auto done = value_of(run(settings));
    EXPECT_EQ(done.steps, steps);
  }

  run_options options_;
};

/// While the only worker is blocked, a trainer's thread runs an epoch of steps together with the server.
TEST_F(DeviceStepsGpu, OfOneRankWakeNobody) {
  step_watch watch;
  bool has_gone_on = false;
  options_.observer.on_epoch = [&](const actors::epoch_summary& one) {
    if (one.epoch == 1) has_gone_on = watch.wait_for(steps);
  };
  train({{"tables", "2"}});
  EXPECT_TRUE(has_gone_on);
}

TEST_F(DeviceStepsGpu, HaveOneWaitForEachTrainerAndTheLaunchesOfOneTable) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts";
  // The last steps of the first epoch: all memory is already allocated, and all graphs are captured.
  constexpr std::uint64_t first = 60;
  constexpr std::uint64_t last = 90;
  std::map<std::string, std::uint64_t> launches;
  for (const std::string tables : {"1", "2", "7"}) {
    step_watch watch;
    train({{"tables", tables}});
    EXPECT_EQ(watch.at(last).waits - watch.at(first).waits, last - first) << tables << " tables";
    launches[tables] = watch.at(last).launches - watch.at(first).launches;
  }
  EXPECT_GT(launches["1"], 0u);
  EXPECT_EQ(launches["2"], launches["1"]);
  EXPECT_EQ(launches["7"], launches["1"]);
}

/// The network's passes of a step are a graph. When the host waits, it has already launched the step's graph, unless it
/// needs the graph's numbers first.
TEST_F(DeviceStepsGpu, WaitForTheStepBeforeWhereTheHostNeedsNoNumber) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts";
  constexpr std::uint64_t first = 60;
  constexpr std::uint64_t last = 90;
  const auto count = [this](const std::map<std::string, std::string>& settings) {
    step_watch watch;
    train(settings);
    return std::pair(watch.at(last).waits - watch.at(first).waits,
                     watch.at(last).graphs_ahead - watch.at(first).graphs_ahead);
  };
  using counted = std::pair<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(count({}), counted(last - first, last - first));
  EXPECT_LE(count({{"trainers", "2"}}).first, 2 * (last - first + 1)) << "the other one may be a step ahead";
  EXPECT_EQ(count({{"clip-norm", "1"}}).second, 0u);
  EXPECT_EQ(count({{"nan", "skip"}}).second, 0u);
}

/// Both errors name the step. Only the processor knows a step's loss before the step is reduced, and then also the
/// step's weights.
TEST_F(DeviceStepsGpu, ReduceAStepBeforeItsNanIsTold) {
  const auto fail = [this] {
    step_watch watch;
    const auto done =
        run({{"loss", "mse"}, {"dense-optimizer", "sgd"}, {"dense-lr", "1000000"}, {"sparse-lr", "1000000"}});
    return std::pair(done ? "it did not fail" : done.error().message, watch.last());
  };
  const std::string line = "trainer 0, step 3: the loss is NaN; ";
  EXPECT_EQ(fail(), std::pair(line + actors::lower_rates, std::uint64_t{3}));
  options_.devices = {};
  const auto [error, last_step] = fail();
  EXPECT_TRUE(error.starts_with(line + "the largest dense weight, ")) << error;
  EXPECT_EQ(last_step, 2U);
}

}  // namespace
}  // namespace troupe::nodes::device_steps_test
