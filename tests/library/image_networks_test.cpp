// Convolutional networks in programs: running statistics, which all trainers get from rank 0, checkpoints, and the same
// network in a job.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/devices.hpp"
#include "tests/kernels/needs_device.hpp"
#include "tests/library/job_network.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::image_networks_test {
namespace {

using floats = std::vector<float>;

nn::sequential network() {
  return nn::sequential(nn::conv2d({.in_channels = 1, .out_channels = 4, .kernel = 3, .padding = 1, .bias = false}),
                        nn::batch_norm({.channels = 4}), nn::relu(), nn::dropout(0.25), nn::global_avg_pool2d(),
                        nn::linear(4, 3));
}

struct images {
  tensor x = tensor({6, 1, 5, 4});
  std::vector<std::int64_t> classes = std::vector<std::int64_t>(6);
};

images images_of(std::uint64_t step, std::uint32_t rank) {
  images made;
  for (std::size_t i = 0; i < made.x.count(); ++i)
    made.x.as<float>()[i] = static_cast<float>((step * 31 + i * 7 + rank * 5) % 23) / 11 - 1;
  for (std::size_t n = 0; n < 6; ++n) made.classes[n] = static_cast<std::int64_t>((step + n + rank) % 3);
  return made;
}

floats statistics_of(const data_parallel& model) {
  floats all;
  for (const auto& [name, numbers] : model.state_dict())
    if (name.starts_with("1.running_")) all.insert(all.end(), numbers.as<float>().begin(), numbers.as<float>().end());
  return all;
}

/// What each rank records: running statistics after each forward pass and after each optimizer step, and the final
/// state.
struct seen {
  std::vector<floats> passed = {};
  std::vector<floats> stepped = {};
  named_tensors state = {};
};

struct training {
  int steps = 8;
  int break_after = 0;  ///< rank 0 throws after this many steps; 0: never
  bool synchronized = true;
  bool rank_0_has_batches = true;
  std::vector<seen>* result = nullptr;
};

task<> train(trainer me, training how) {
  auto model = me.data_parallel(network(), {.synchronized = how.synchronized});
  distributed_optimizer optimizer(adam{.lr = 0.02}, model);
  seen mine;
  int steps = 0;
  for (const auto step : me.steps(static_cast<std::uint64_t>(how.steps))) {
    const images now = images_of(step, me.rank());
    auto context = me.new_context();
    if (me.rank() > 0 || how.rank_0_has_batches)
      co_await context.backward(nn::cross_entropy(context, model(context, now.x), now.classes));
    mine.passed.push_back(statistics_of(model));
    co_await optimizer.step(context);
    mine.stepped.push_back(statistics_of(model));
    if (++steps == how.break_after && me.rank() == 0) throw std::runtime_error("the power has failed");
  }
  mine.state = model.state_dict();
  how.result->at(me.rank()) = std::move(mine);
}

struct outcome {
  std::string digest;
  std::vector<seen> ranks = std::vector<seen>(2);
};

outcome run(std::vector<std::string> text = {}, training how = {}) {
  outcome result;
  how.result = &result.ranks;
  text.insert(text.begin(), "--quiet");
  result.digest = test::run_with(test::arguments(std::move(text)), 2, train, how).weights_digest;
  return result;
}

TEST(RunningStatistics, AreThoseOfRankZeroAfterEachOptimizerStep) {
  const outcome result = run();
  const auto& [first, second] = std::tie(result.ranks[0], result.ranks[1]);
  ASSERT_EQ(first.stepped.size(), 8U);
  ASSERT_EQ(second.stepped.size(), 8U);
  for (std::size_t step = 0; step < 8; ++step) {
    ASSERT_EQ(first.passed[step].size(), 8U);
    EXPECT_NE(first.passed[step], second.passed[step]) << step;
    EXPECT_EQ(first.stepped[step], first.passed[step]) << step;
    EXPECT_EQ(second.stepped[step], first.passed[step]) << step;
    if (step > 0) {
      EXPECT_NE(first.stepped[step], first.stepped[step - 1]);
    }
  }
}

TEST(RunningStatistics, StayAsTheyAreInStepsWithoutABatchOfRankZero) {
  const outcome result = run({}, {.steps = 2, .rank_0_has_batches = false});
  const floats initial = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_NE(result.ranks[1].passed.back(), initial);
  EXPECT_EQ(result.ranks[1].stepped, (std::vector<floats>{initial, initial}));
  EXPECT_EQ(result.ranks[0].stepped, (std::vector<floats>{initial, initial}));
}

TEST(RunningStatistics, AreTheTrainersOwnInReplicasThatAreNotSynchronized) {
  const outcome result = run({}, {.synchronized = false});
  EXPECT_NE(result.ranks[0].stepped, result.ranks[1].stepped);
  for (const seen& rank : result.ranks) EXPECT_EQ(rank.stepped, rank.passed);
}

TEST(RunningStatistics, HaveTheNamesOfPyTorch) {
  const outcome result = run({}, {.steps = 1});
  std::vector<std::string> names;
  for (const auto& [name, numbers] : result.ranks[1].state) names.push_back(name + " " + to_string(numbers.shape()));
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight [4, 1, 3, 3]", "1.weight [4]", "1.bias [4]", "5.weight [3, 4]",
                                             "5.bias [3]", "1.running_mean [4]", "1.running_var [4]"}));
}

TEST(ImageNetworks, BrokenOffAndResumedHaveTheBitsOfTheUnbrokenRun) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const outcome unbroken = run();
  EXPECT_THROW(run({"--save", there, "--checkpoint-every", "3"}, {.break_after = 5}), error);
  const outcome resumed = run({"--resume", there});
  EXPECT_EQ(resumed.digest, unbroken.digest) << "with the masks of dropout";
  ASSERT_LT(resumed.ranks[1].stepped.size(), 8U);
  ASSERT_FALSE(resumed.ranks[1].stepped.empty());
  EXPECT_EQ(resumed.ranks[1].stepped.front(), unbroken.ranks[1].stepped[8 - resumed.ranks[1].stepped.size()]);
  EXPECT_EQ(run({"--threads", "1"}).digest, unbroken.digest);
  EXPECT_NE(run({"--seed", "2"}).digest, unbroken.digest);
}

class ImageNetworksGpu : public needs_device {};

TEST_F(ImageNetworksGpu, TrainAsOnTheProcessor) {
  const outcome here = run();
  const outcome there = run({"--device", "cuda"});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const named_tensors& expected = here.ranks[rank].state;
    const named_tensors& found = there.ranks[rank].state;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t t = 0; t < found.size(); ++t) {
      const auto a = found[t].second.as<float>();
      const auto b = expected[t].second.as<float>();
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-4) << found[t].first << " " << i;
    }
  }
  EXPECT_EQ(there.ranks[1].stepped.back(), there.ranks[0].passed.back());
}

// -- compared with a job ----------------------------------------------------------------------

const char* const layers_of_job = R"([
    {"kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1, "bias": false}, {"kind": "batch_norm"},
    {"kind": "relu"}, {"kind": "max_pool2d", "kernel": 2}, {"kind": "conv2d", "out_channels": 6, "kernel": 3},
    {"kind": "gelu"}, {"kind": "avg_pool2d", "kernel": 2, "stride": 1}, {"kind": "flatten"},
    {"kind": "linear", "out": 8}, {"kind": "relu"}, {"kind": "layer_norm"}, {"kind": "linear", "out": 10}])";

nn::sequential layers_of_program() {
  return nn::sequential(nn::conv2d({.in_channels = 1, .out_channels = 4, .kernel = 3, .padding = 1, .bias = false}),
                        nn::batch_norm({.channels = 4}), nn::relu(), nn::max_pool2d(2),
                        nn::conv2d({.in_channels = 4, .out_channels = 6, .kernel = 3}), nn::gelu(),
                        nn::avg_pool2d(2, 1), nn::flatten(), nn::linear(12, 8), nn::relu(), nn::layer_norm(8),
                        nn::linear(8, 10));
}

TEST(ImageNetworks, HaveTheDigestOfTheJobWithTheSameLayers) {
  test::expect_digest_of_job({layers_of_job, layers_of_program, 8, 10}, 2, 75);  // the last batches are short
}

}  // namespace
}  // namespace troupe::image_networks_test
