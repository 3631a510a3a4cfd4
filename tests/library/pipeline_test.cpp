// Pipelines: the bits of the whole network for all stages and schedules; how many micro-batches are in flight; errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/needs_device.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::pipeline_test {
namespace {

using test::error_of;
using test::run;
using test::run_with;

constexpr std::size_t features = 6;
constexpr std::size_t classes = 3;
constexpr auto one_f_one_b = pipeline_schedule::one_f_one_b;
constexpr auto gpipe = pipeline_schedule::gpipe;

/// Has buffers, random numbers, and modules without parameters.
nn::sequential network() {
  return nn::sequential(nn::linear(features, 8), nn::batch_norm({.channels = 8}), nn::relu(), nn::dropout(0.25),
                        nn::linear(8, 8), nn::relu(), nn::linear(8, classes));
}

/// Cuts the network into 1 to 4 stages; the third of 4 has no parameters.
std::vector<nn::sequential> stages_of(std::size_t count) {
  const std::vector<std::vector<std::size_t>> sizes = {{7}, {3, 4}, {2, 3, 2}, {1, 1, 2, 3}};
  std::vector<nn::sequential> all;
  std::size_t first = 0;
  for (const std::size_t size : sizes.at(count - 1))
    all.push_back(network().part(std::exchange(first, first + size), size));
  return all;
}

struct batch {
  tensor x;
  std::vector<std::int64_t> y;
};

batch make_batch(std::uint64_t step, std::uint32_t replica, std::size_t samples) {
  batch made{tensor({samples, features}), std::vector<std::int64_t>(samples)};
  const auto x = made.x.as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * 7 + step * 13 + replica * 5));
  for (std::size_t i = 0; i < samples; ++i) made.y[i] = static_cast<std::int64_t>((i + step + replica) % classes);
  return made;
}

tensor some_samples(const tensor& x, std::size_t first, std::size_t count) {
  return tensor::of<float>({count, features}, x.as<float>().subspan(first * features, count * features));
}

/// The training's parameters.
struct training {
  std::size_t stages = 1;
  pipeline_schedule schedule = one_f_one_b;
  std::size_t micro_batches = 3;
  std::size_t samples = 7;  ///< the first micro-batch is larger
  int batches = 1;          ///< per step
  int steps = 5;
  int break_after = 0;
  bool uneven = false;                    ///< the last replica has no batch in later steps
  std::vector<double>* losses = nullptr;  ///< of rank 0
};

bool has_batch(const training& how, std::uint32_t replica, std::uint64_t step) {
  return !how.uneven || replica == 0 || step < 2;
}

/// The whole network, with the same micro-batches: their gradients are accumulated.
task<> train_whole(trainer me, training how) {
  auto model = me.data_parallel(network());
  distributed_optimizer optimizer(adam{.lr = 0.02}, model);
  for (const auto step : me.steps(static_cast<std::uint64_t>(how.steps))) {
    auto context = me.new_context();
    for (int i = 0; i < how.batches && has_batch(how, me.rank(), step); ++i) {
      const batch now = make_batch(step * 10 + static_cast<std::uint64_t>(i), me.rank(), how.samples);
      const std::size_t parts = std::min(how.micro_batches, how.samples);
      double mean = 0;
      std::size_t first = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t count = how.samples / parts + (part < how.samples % parts ? 1 : 0);
        const tensor outputs = model(context, some_samples(now.x, first, count));
        const tensor loss = nn::cross_entropy(context, outputs, std::span(now.y).subspan(first, count));
        const double share = static_cast<double>(count) / static_cast<double>(how.samples);
        mean += loss.item() * share;
        co_await context.backward(loss, share);
        first += count;
      }
      if (me.rank() == 0) how.losses->push_back(mean);
    }
    co_await optimizer.step(context);
  }
}

task<> train(trainer me, training how) {
  auto model = me.pipeline(stages_of(how.stages), {.schedule = how.schedule, .micro_batches = how.micro_batches});
  distributed_optimizer optimizer(adam{.lr = 0.02}, model);
  int steps = 0;
  for (const auto step : me.steps(static_cast<std::uint64_t>(how.steps))) {
    auto context = me.new_context();
    for (int i = 0; i < how.batches && has_batch(how, model.replica(), step); ++i) {
      const batch now = make_batch(step * 10 + static_cast<std::uint64_t>(i), model.replica(), how.samples);
      const double loss = co_await model.step(context, now.x, now.y, nn::cross_entropy);
      if (me.rank() == 0) how.losses->push_back(loss);
    }
    co_await optimizer.step(context);
    if (++steps == how.break_after && me.rank() == 1) throw std::runtime_error("the power has failed");
  }
}

struct outcome {
  std::string digest;
  std::vector<double> losses;
};

outcome whole(std::uint32_t replicas, training how, std::vector<std::string> text = {}) {
  outcome result;
  how.losses = &result.losses;
  result.digest = run_with(test::arguments(std::move(text)), replicas, train_whole, how).weights_digest;
  return result;
}

outcome piped(std::uint32_t replicas, training how, std::vector<std::string> text = {}) {
  outcome result;
  how.losses = &result.losses;
  const auto trainers = static_cast<std::uint32_t>(how.stages) * replicas;
  result.digest = run_with(test::arguments(std::move(text)), trainers, train, how).weights_digest;
  return result;
}

/// Expects the whole network's bits, for all stages and schedules.
void expect_bits(std::uint32_t replicas, training how) {
  const outcome expected = whole(replicas, how);
  ASSERT_FALSE(expected.losses.empty());
  for (how.stages = 1; how.stages <= 4; ++how.stages)
    for (const auto schedule : {one_f_one_b, gpipe}) {
      how.schedule = schedule;
      const outcome is = piped(replicas, how);
      EXPECT_EQ(is.digest, expected.digest) << how.stages << " stages";
      EXPECT_EQ(is.losses, expected.losses) << how.stages << " stages";
    }
}

TEST(Pipelines, HaveTheBitsOfTheWholeNetwork) { expect_bits(1, {}); }
TEST(Pipelines, HaveThemWithReplicas) { expect_bits(2, {}); }
TEST(Pipelines, HaveThemWithMoreMicroBatchesThanSamples) { expect_bits(1, {.micro_batches = 5, .samples = 4}); }
TEST(Pipelines, HaveThemWithOneMicroBatch) { expect_bits(1, {.micro_batches = 1}); }
TEST(Pipelines, HaveThemWithSeveralBatchesInAStep) { expect_bits(2, {.batches = 2, .steps = 3}); }
TEST(Pipelines, HaveThemWhereAReplicaHasNoBatch) { expect_bits(2, {.uneven = true}); }

class PipelinesGpu : public needs_device {};

TEST_F(PipelinesGpu, HaveTheBitsOfTheWholeNetworkThere) {
  const std::vector<std::string> there = {"--device", "cuda", "--devices", "0"};
  const outcome expected = whole(2, {}, there);
  for (const std::size_t stages : {1, 3}) {
    const outcome is = piped(2, {.stages = stages}, there);
    EXPECT_EQ(is.digest, expected.digest) << stages << " stages";
    EXPECT_EQ(is.losses, expected.losses) << stages << " stages";
  }
}

TEST(Pipelines, CountTheirMicroBatchesAndTheirSeed) {
  const outcome one = piped(1, {.stages = 2});
  EXPECT_NE(piped(1, {.stages = 2, .micro_batches = 2}).digest, one.digest);
  EXPECT_NE(piped(1, {.stages = 2}, {"--seed", "2"}).digest, one.digest);
}

TEST(Pipelines, AreResumedWithTheBitsOfTheUnbrokenRun) {
  const outcome unbroken = piped(2, {.steps = 8});
  const trace::temporary_folder folder;
  const std::vector<std::string> saving = {"--save", folder.path().string(), "--checkpoint-every",
                                           "2",      "--restarts",           "0"};
  EXPECT_THROW(piped(2, {.stages = 2, .steps = 8, .break_after = 5}, saving), error);
  const std::vector<std::string> resuming = {"--resume", folder.path().string()};
  const outcome resumed = piped(2, {.stages = 2, .steps = 8}, resuming);
  EXPECT_EQ(resumed.digest, unbroken.digest);
  EXPECT_EQ(resumed.losses, std::vector(unbroken.losses.begin() + 4, unbroken.losses.end()));
}

// -- micro-batches in flight -------------------------------------------------------------

/// For each stage: micro-batches with a forward pass but no backward pass yet, and their maximum.
struct counts {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
};
std::array<counts, 3> alive;

/// Passes its input through, and counts the micro-batches in flight in a stage.
class counter final : public nn::module {
 public:
  explicit counter(std::size_t stage) : stage_(stage) {}

  std::string type() const override { return "counter"; }
  std::vector<nn::parameter> parameters() const override { return {{"unused", {1}}}; }
  shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass&, const nn::pass_numbers& numbers) const override {
    std::ranges::copy(numbers.input.as<float>(), numbers.output.begin());
    counts& mine = alive[stage_];
    mine.most = std::max<int>(mine.most, ++mine.now);
  }
  void backward(const nn::pass&, const nn::pass_numbers&, const nn::gradients& of) const override {
    if (of.input) std::ranges::copy(of.output, of.input.begin());
    if (!of.parameters) return;
    of.parameters[0][0] = 0;
    --alive[stage_].now;
  }

 private:
  std::size_t stage_;
};

task<> count_alive(trainer me, pipeline_schedule schedule, std::size_t micro_batches, std::vector<std::size_t>* told) {
  const std::vector<nn::sequential> stages = {nn::sequential(nn::linear(features, 4), counter(0)),
                                              nn::sequential(counter(1)),
                                              nn::sequential(counter(2), nn::linear(4, classes))};
  auto model = me.pipeline(stages, {.schedule = schedule, .micro_batches = micro_batches});
  distributed_optimizer optimizer(sgd{}, model);
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const batch now = make_batch(step, 0, 8);
    co_await model.step(context, now.x, now.y, nn::cross_entropy);
    co_await optimizer.step(context);
  }
  (*told)[me.rank()] = model.max_in_flight();
}

TEST(Pipelines, KeepNoMoreMicroBatchesThanTheScheduleSays) {
  struct expectation {
    pipeline_schedule schedule;
    std::size_t micro_batches;
    std::vector<std::size_t> most;
  };
  const std::vector<expectation> all = {
      {one_f_one_b, 8, {3, 2, 1}}, {one_f_one_b, 2, {2, 2, 1}}, {gpipe, 8, {8, 8, 8}}, {gpipe, 2, {2, 2, 2}}};
  for (const auto& [schedule, micro_batches, most] : all) {
    for (counts& one : alive) one.now = one.most = 0;
    std::vector<std::size_t> told(3);
    run(3, count_alive, schedule, micro_batches, &told);
    EXPECT_EQ(told, most);
    for (std::size_t s = 0; s < 3; ++s) {
      EXPECT_EQ(alive[s].most, static_cast<int>(most[s])) << "stage " << s;
      EXPECT_EQ(alive[s].now, 0) << "stage " << s;
    }
  }
}

// -- other tests -------------------------------------------------------------------------

task<> read_whole(trainer me, tensor x, named_tensors* state, tensor* outputs) {
  auto model = me.data_parallel(network());
  *state = model.state_dict();
  for (auto& [name, numbers] : *state)
    for (float& one : numbers.as<float>()) one *= 1.5F;
  model.load_state_dict(*state);
  auto context = me.no_grad();
  *outputs = model(context, x);
  co_return;
}

task<> read_stages(trainer me, tensor x, named_tensors state, std::vector<named_tensors>* states, tensor* outputs) {
  auto model = me.pipeline(stages_of(3));
  model.load_state_dict(state);
  (*states)[me.rank()] = model.state_dict();
  auto context = me.no_grad();
  const tensor y = co_await model.infer(context, x);
  EXPECT_EQ(y.count() > 0, model.stage() == 2);
  if (model.stage() == 2) *outputs = y;
}

TEST(Pipelines, LoadTheWholeNetworksStateAndInferAsItDoes) {
  const tensor x = make_batch(0, 0, 5).x;
  named_tensors state;
  tensor expected;
  run(1, read_whole, x, &state, &expected);
  std::vector<named_tensors> states(3);
  tensor outputs;
  run(3, read_stages, x, state, &states, &outputs);
  ASSERT_EQ(outputs.count(), expected.count());
  for (std::size_t i = 0; i < expected.count(); ++i) EXPECT_EQ(outputs.as<float>()[i], expected.as<float>()[i]);
  std::size_t found = 0;
  for (const auto& part : states)
    for (const auto& [name, numbers] : part) {
      const auto same = std::ranges::find(state, name, &named_tensors::value_type::first);
      ASSERT_NE(same, state.end()) << name;
      EXPECT_TRUE(std::ranges::equal(numbers.as<float>(), same->second.as<float>())) << name;
      ++found;
    }
  EXPECT_EQ(found, state.size());
}

/// Returns the stages' error; any stage may report it first.
std::string error_with(std::uint32_t trainers, const std::vector<nn::sequential>& stages) {
  const std::string text = error_of(
      trainers,
      [](trainer me, std::vector<nn::sequential> all) -> task<> {
        auto model = me.pipeline(all);
        auto context = me.new_context();
        const batch now = make_batch(0, 0, 4);
        co_await model.step(context, now.x, now.y, nn::cross_entropy);
      },
      stages);
  return text.substr(std::min(text.find("pipeline"), text.size()));
}

TEST(PipelineErrors, NameWhatDoesNotFit) {
  const auto layer = [](std::size_t in, std::size_t out) { return nn::sequential(nn::linear(in, out)); };
  EXPECT_EQ(error_with(2, {layer(6, 4), layer(4, 4), layer(4, 3)}),
            "pipeline: 3 stages for 2 trainers; each stage has a trainer of its own in each replica, so there must be "
            "3, or a multiple of that");
  EXPECT_EQ(error_with(3, {layer(6, 4), layer(4, 3)}),
            "pipeline: 2 stages for 3 trainers; each stage has a trainer of its own in each replica, so there must be "
            "2, or a multiple of that");
  EXPECT_EQ(
      error_with(2, {layer(6, 4), layer(5, 3)}),
      "pipeline: stage 0 makes [2, 4] of float32, which stage 1 cannot take: linear: takes [n, 5] of float32 with "
      "n at least 1, not [2, 4] of float32");
  EXPECT_EQ(error_with(1, {}), "pipeline: no stages; give it at least 1");
  EXPECT_EQ(error_with(2, {layer(6, 3), nn::sequential()}), "pipeline: stage 1 has no modules; each has at least 1");
  EXPECT_EQ(
      error_with(2, {layer(6, 3), nn::sequential(nn::batch_norm({.channels = 3, .synchronized = true}))}),
      "pipeline: a module in stage 1 synchronizes, and the stages are in no pass together; use one that does not, "
      "as batch_norm without .synchronized");
}

/// The fault of one of two stages.
enum class mistake : std::uint8_t { other_batch, no_samples, early_return, computed_input, infer_in_training };

task<> make_mistake(trainer me, mistake which) {
  auto model = me.pipeline({nn::sequential(nn::linear(features, 4)), nn::sequential(nn::linear(4, classes))});
  distributed_optimizer optimizer(sgd{}, model);
  for (std::uint64_t step = 0; step < 3; ++step) {
    if (which == mistake::early_return && me.rank() == 0 && step == 2) co_return;
    auto context = me.new_context();
    batch now = make_batch(step, 0, which == mistake::other_batch && me.rank() == 1 ? 3 : 4);
    if (which == mistake::no_samples) now.y.clear();
    if (which == mistake::computed_input) now.x = scale(context, now.x, 2);
    if (which == mistake::infer_in_training) co_await model.infer(context, now.x);
    co_await model.step(context, now.x, now.y, nn::cross_entropy);
    co_await optimizer.step(context);
  }
}

TEST(PipelineErrors, NameWhatTheStagesDoInOtherWays) {
  const auto expect = [](mistake which, const std::string& expected) {
    const std::string text = error_of(2, make_mistake, which);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  };
  expect(mistake::other_batch,
         "pipeline: stage 1 of replica 0 has a batch of 3 samples, stage 0 one of 4; the stages of a replica take the "
         "same batch");
  expect(mistake::no_samples,
         "pipeline: an input [4, 6] and targets [0]; the first dimension of both counts the samples");
  expect(mistake::early_return, "trainer 0");
  expect(mistake::computed_input, "pipeline: an input [4, 6] that the context has computed");
  expect(mistake::infer_in_training, "pipeline: infer in a training context; use one of no_grad()");
}

}  // namespace
}  // namespace troupe::pipeline_test
