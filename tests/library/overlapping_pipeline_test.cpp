// Pipelines with overlapping steps (PipeDream): the weights of PyTorch's float64 reference runs
// (tests/reference_runs/pipedream), the same when resumed, and errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::overlapping_pipeline_test {
namespace {

using test::error_of;
using test::run;
using test::run_with;

constexpr auto pipedream = pipeline_schedule::pipedream;
constexpr double tolerance = 1e-4;

// -- runs recorded with PyTorch ---------------------------------------------------------------

/// A reference run and its options.
struct recorded {
  std::map<std::string, tensor> all;
  std::vector<std::size_t> begins;  ///< the first layer of each stage
  std::size_t batch;
  bool has_classes;
  optimizer_choice optimizer;

  const tensor& of(std::uint32_t replica, const char* what) const {
    return all.at("trainer." + std::to_string(replica) + "." + what);
  }
};

recorded read(const std::string& name, std::vector<std::size_t> begins, std::size_t batch, bool has_classes,
              optimizer_choice optimizer) {
  const named_tensors all = load_safetensors(TROUPE_REFERENCE_RUNS "/pipedream/" + name + ".safetensors");
  return {{all.begin(), all.end()}, std::move(begins), batch, has_classes, std::move(optimizer)};
}

std::vector<nn::sequential> stages_of(const recorded& run) {
  const nn::sequential network(nn::linear(8, 12), nn::relu(), nn::linear(12, 9), nn::layer_norm(9), nn::gelu(),
                               nn::linear(9, 6), nn::relu(), nn::linear(6, 3));
  std::vector<nn::sequential> stages;
  for (std::size_t s = 0; s < run.begins.size(); ++s) {
    const std::size_t end = s + 1 < run.begins.size() ? run.begins[s + 1] : network.size();
    stages.push_back(network.part(run.begins[s], end - run.begins[s]));
  }
  return stages;
}

/// Returns the weights `init.layer` or `final.layer` as the network's state.
named_tensors state_of(const recorded& run, const std::string& which) {
  named_tensors state;
  for (const auto& [name, numbers] : run.all)
    if (name.starts_with(which)) state.emplace_back(name.substr(which.size()), numbers);
  return state;
}

tensor rows_of(const tensor& all, std::size_t first, std::size_t count) {
  const std::size_t columns = all.shape()[1];
  return tensor::of<float>({count, columns}, all.as<float>().subspan(first * columns, count * columns));
}

/// A stage's results.
struct stage_result {
  std::vector<double> losses;
  named_tensors state;
  tensor outputs;
  std::size_t max_in_flight = 0;
};

task<> repeat(trainer me, const recorded* run, std::vector<stage_result>* results) {
  stage_result& mine = results->at(me.rank());
  auto model = me.pipeline(stages_of(*run), {.schedule = pipedream});
  model.load_state_dict(state_of(*run, "init.layer."));
  distributed_optimizer optimizer(run->optimizer, model);
  const tensor& inputs = run->of(model.replica(), "input");
  const tensor& targets = run->of(model.replica(), "target");
  const std::size_t steps = run->of(model.replica(), "loss").count();
  for (const auto step : me.steps(steps)) {
    auto context = me.new_context();
    const std::size_t first = step * run->batch;
    const tensor x = rows_of(inputs, first, run->batch);
    double loss = 0;
    if (run->has_classes) {
      loss = co_await model.step(context, x, targets.as<std::int64_t>().subspan(first, run->batch), nn::cross_entropy);
    } else {
      const tensor y = rows_of(targets, first, run->batch);
      loss = co_await model.step(context, x, y, nn::mse_loss);
    }
    co_await optimizer.step(context);
    mine.losses.push_back(loss);
  }
  auto evaluation = me.no_grad();
  mine.outputs = co_await model.infer(evaluation, run->all.at("eval.input"));  // drains the pipeline
  mine.state = model.state_dict();
  mine.max_in_flight = model.max_in_flight();
}

void expect_near(const tensor& is, const tensor& expected, const std::string& what) {
  ASSERT_EQ(is.count(), expected.count()) << what;
  for (std::size_t i = 0; i < is.count(); ++i)
    EXPECT_NEAR(is.as<float>()[i], expected.as<double>()[i], tolerance * (1 + std::abs(expected.as<double>()[i])))
        << what << " " << i;
}

void expect_recorded(const recorded& run, std::uint32_t replicas) {
  const auto stages = static_cast<std::uint32_t>(run.begins.size());
  std::vector<stage_result> results(stages * replicas);
  test::run(stages * replicas, repeat, &run, &results);
  const named_tensors expected = state_of(run, "final.layer.");
  std::size_t found = 0;
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    const stage_result& one = results[rank];
    const std::uint32_t behind = stages - 1 - rank % stages;  // stages after this one
    EXPECT_EQ(one.max_in_flight, behind + 1) << rank;
    const auto losses = run.of(rank / stages, "loss").as<double>();
    ASSERT_EQ(one.losses.size(), losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (i < behind)
        EXPECT_TRUE(std::isnan(one.losses[i])) << rank;
      else
        EXPECT_NEAR(one.losses[i], losses[i - behind], tolerance) << rank << " " << i;
    for (const auto& [name, numbers] : one.state) {
      const auto same = std::ranges::find(expected, name, &named_tensors::value_type::first);
      ASSERT_NE(same, expected.end()) << name;
      expect_near(numbers, same->second, name);
      ++found;
    }
    if (behind == 0) expect_near(one.outputs, run.all.at("eval.output"), "outputs");
  }
  EXPECT_EQ(found, expected.size() * replicas);
}

TEST(OverlappingPipelines, TrainWhatPyTorchDoes) {
  expect_recorded(read("features_0_3", {0, 3}, 10, true, sgd{.lr = 0.1, .momentum = 0.9}), 1);
}
TEST(OverlappingPipelines, TrainWhatPyTorchDoesWithReplicas) {
  expect_recorded(read("features_0_3_5", {0, 3, 5}, 9, false, adam{.lr = 0.01}), 2);
}

// -- runs without a reference -------------------------------------------------------------------

/// Stages with buffers, with random numbers, and without parameters.
std::vector<nn::sequential> small_stages() {
  const nn::sequential all(nn::linear(6, 8), nn::batch_norm({.channels = 8}), nn::relu(), nn::dropout(0.25),
                           nn::linear(8, 3));
  return {all.part(0, 2), all.part(2, 2), all.part(4, 1)};
}

struct batch {
  tensor x;
  std::vector<std::int64_t> y;
};

batch make_batch(std::uint64_t step, std::uint32_t replica) {
  batch made{tensor({5, 6}), std::vector<std::int64_t>(5)};
  const auto x = made.x.as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * 7 + step * 13 + replica * 5));
  for (std::size_t i = 0; i < made.y.size(); ++i) made.y[i] = static_cast<std::int64_t>((i + step) % 3);
  return made;
}

struct training {
  std::uint64_t steps = 11;
  std::uint64_t break_after = 0;
  std::uint64_t drain_after = 0;
};

task<> train(trainer me, training how) {
  auto model = me.pipeline(small_stages(), {.schedule = pipedream});
  distributed_optimizer optimizer(adam{.lr = 0.02}, model);
  for (const auto step : me.steps(how.steps)) {
    auto context = me.new_context();
    const batch now = make_batch(step, model.replica());
    co_await model.step(context, now.x, now.y, nn::cross_entropy);
    co_await optimizer.step(context);
    if (step + 1 == how.drain_after) co_await model.drain();
    if (step + 1 == how.break_after) throw std::runtime_error("the power has failed");
  }
}

std::string digest_with(const training& how, std::vector<std::string> text = {}) {
  return run_with(test::arguments(std::move(text)), 6, train, how).weights_digest;
}

TEST(OverlappingPipelines, HaveTheSameBitsEachTime) {
  const std::string one = digest_with({});
  EXPECT_EQ(digest_with({}), one);
  EXPECT_EQ(digest_with({.drain_after = 11}), one) << "a run ends drained";
  EXPECT_NE(digest_with({.drain_after = 5}), one) << "batches after it have newer weights";
}

TEST(OverlappingPipelines, AreDrainedAtACheckpointAndResumedThere) {
  const auto saving = [&](const trace::temporary_folder& folder) {
    return std::vector<std::string>{"--save", folder.path().string(), "--checkpoint-every", "4", "--restarts", "0"};
  };
  const trace::temporary_folder whole;
  const std::string unbroken = digest_with({}, saving(whole));
  EXPECT_NE(unbroken, digest_with({}));
  EXPECT_EQ(digest_with({.steps = 8}, saving(trace::temporary_folder())), digest_with({.steps = 8, .drain_after = 4}));
  const trace::temporary_folder folder;
  EXPECT_THROW(digest_with({.break_after = 9}, saving(folder)), error);
  EXPECT_EQ(digest_with({}, {"--resume", folder.path().string()}), unbroken);
}

/// Faults of one of two stages.
enum class mistake : std::uint8_t { no_batch, second_batch, early_state, early_drain, cut_batch, no_step };

task<> make_mistake(trainer me, mistake which) {
  pipeline_options options{.schedule = pipedream};
  if (which == mistake::cut_batch) options.micro_batches = 2;
  auto model = me.pipeline({nn::sequential(nn::linear(6, 4)), nn::sequential(nn::linear(4, 3))}, options);
  distributed_optimizer optimizer(sgd{}, model);
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const batch now = make_batch(step, 0);
    if (which != mistake::no_batch || step != 1) co_await model.step(context, now.x, now.y, nn::cross_entropy);
    if (which == mistake::second_batch) co_await model.step(context, now.x, now.y, nn::cross_entropy);
    if (which == mistake::early_drain) co_await model.drain();
    if (which == mistake::no_step) co_return;
    co_await optimizer.step(context);
    if (which == mistake::early_state) model.state_dict();
  }
}

TEST(OverlappingPipelines, RefuseWhatTheyCannotDo) {
  const auto expect = [](mistake which, const std::string& expected) {
    const std::string text = error_of(2, make_mistake, which);
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  };
  expect(mistake::no_batch, "pipeline: an optimizer step with a context in which no batch was passed");
  expect(mistake::second_batch, "pipeline: a second batch before the optimizer's step");
  expect(mistake::early_state, "pipeline: state_dict while batches are under way; co_await drain() first");
  expect(mistake::early_drain, "pipeline: a batch without its optimizer step");
  expect(mistake::no_step, "pipeline: a batch without its optimizer step");
  expect(mistake::cut_batch, "pipeline: 2 micro_batches with pipedream, which passes whole batches; leave it out");
}

}  // namespace
}  // namespace troupe::overlapping_pipeline_test
