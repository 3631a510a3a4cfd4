// Reference runs of networks given by layers.

#include <gtest/gtest.h>

#include <algorithm>

#include "model/replay.hpp"
#include "tests/model/made_run.hpp"
#include "tests/model/opened_run.hpp"

namespace troupe::model::replay_layers_test {
namespace {

TEST(ReplayLayers, SettingsSayTheRunsJob) {
  const auto cross = open_reference_run(shipped("cross"));
  ASSERT_TRUE(cross.has_value()) << cross.error().message;
  EXPECT_EQ(std::ranges::find(cross->settings, "hidden", &setting::first), cross->settings.end());
  const job layered = job_of(*cross);
  ASSERT_EQ(layered.layers.size(), 5U);
  EXPECT_EQ(layered.layers[0], (nn::layer_spec{nn::low_rank_cross::options{.rank = 8, .layers = 3}}));
  EXPECT_EQ(layered.layers[2], (nn::layer_spec{nn::linear::options{.out_features = 32}}));
  EXPECT_EQ(to_string(layered.dense_optimizer), "adagrad");
  EXPECT_EQ(layered.dense_optimizer.lr, 0.02);
}

TEST(ReplayLayers, BatchesAndResultsAreRead) {
  const temporary_file file(made_layer_run().bytes());
  const auto data = data_of(file.path());
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->steps_per_epoch(), 2U);
  EXPECT_EQ(data->spec().dense_features, 4U);
  EXPECT_EQ(data->spec().image, troupe::shape(1, 2, 2));
  const batch taken = data->train_batch(1, 1).value();
  EXPECT_EQ(taken.size, 2U);
  EXPECT_EQ(taken.dense, (std::vector<float>{108, 109, 110, 111, 112, 113, 114, 115}));
  EXPECT_EQ(taken.values, (std::vector<float>{2, 3}));
  EXPECT_TRUE(taken.tables.empty());
  const std::vector<float> dense{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  const std::vector<float> buffers{-1, -2, -3, -4, -5, -6, -7, -8};
  EXPECT_EQ(data->start()->dense, dense);
  EXPECT_EQ(data->start()->buffers, buffers);
  const auto run = *open_reference_run(file.path());
  EXPECT_EQ(run.dense, std::vector<double>(dense.begin(), dense.end()));
  EXPECT_EQ(run.buffers, std::vector<double>(buffers.begin(), buffers.end()));
  EXPECT_EQ(run.spec.image, data->spec().image);
  EXPECT_EQ(run.eval_input, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(run.eval_output, std::vector<double>{0.5});
}

TEST(ReplayLayers, TensorsThatDoNotFitAreRefused) {
  for (const char* name :
       {"init.layer.0.weight", "init.layer.1.running_mean", "final.layer.1.bias", "final.layer.2.0.running_var",
        "final.layer.4.bias", "trainer.0.input", "trainer.1.target", "trainer.1.loss", "eval.input", "eval.output"}) {
    auto file = made_layer_run();
    file.remove(name);
    EXPECT_EQ(refusal(file), fmt::format("tensor {} is missing", name));
  }
  const auto with_floats = [](const std::string& name, const std::vector<std::uint64_t>& shape, std::size_t count) {
    auto file = made_layer_run();
    file.set<float>(name, shape, std::vector<float>(count));
    return refusal(file);
  };
  EXPECT_EQ(with_floats("init.layer.0.weight", {1, 2, 2, 2}, 8),
            "tensor init.layer.0.weight: shape [1, 2, 2, 2]: must be [2, 1, 2, 2]");
  EXPECT_EQ(with_floats("final.layer.2.0.running_var", {3}, 3),
            "tensor final.layer.2.0.running_var: shape [3]: must be [2]");
  EXPECT_EQ(with_floats("trainer.1.input", {3, 1, 2, 2}, 12),
            "tensor trainer.1.input: shape [3, 1, 2, 2]: must be [4, 1, 2, 2]");
  EXPECT_EQ(with_floats("trainer.1.input", {4, 4}, 16), "tensor trainer.1.input: shape [4, 4]: must be [4, 1, 2, 2]");
  EXPECT_EQ(with_floats("trainer.0.target", {3, 1}, 3), "tensor trainer.0.target: 3 values: must be 4");
  EXPECT_EQ(with_floats("eval.input", {2, 4}, 8), "tensor eval.input: shape [2, 4]: must be [2, 1, 2, 2]");
  EXPECT_EQ(with_floats("eval.input", {0, 1, 2, 2}, 0), "tensor eval.input: shape [0, 1, 2, 2]: must be [1, 1, 2, 2]");
  EXPECT_EQ(with_floats("eval.output", {1, 2}, 2), "tensor eval.output: shape [1, 2]: must be [1, 1]");
}

TEST(ReplayLayers, AJobThatDoesNotFitTheRunIsRefused) {
  const std::string other = R"([{"kind":"linear","out":1}])";
  // Opens the run's data for its job with other layers, or without any if `layers` is empty.
  const auto with = [](const std::string& name, const std::string& layers) {
    auto settings = open_reference_run(shipped(name))->settings;
    std::erase_if(settings, [](const setting& one) { return one.first == "hidden" || one.first == "layers"; });
    if (!layers.empty()) settings.emplace_back("layers", layers);
    const auto opened = open_dataset(*parse_job(settings));
    return opened ? "opened" : opened.error().message;
  };
  const std::string cross = nn::to_json(job_of(*open_reference_run(shipped("cross"))).layers);
  EXPECT_EQ(with("cross", cross), "opened");
  EXPECT_EQ(with("cross", other), fmt::format("--layers {}: must be {}, as in the reference run", other, cross));
  EXPECT_EQ(with("cross", ""), fmt::format("--layers: must be {}, as in the reference run", cross));
  EXPECT_EQ(with("mlp_mse", other), "--hidden: must be 10, as in the reference run");
}

}  // namespace
}  // namespace troupe::model::replay_layers_test
