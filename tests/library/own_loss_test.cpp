// Losses that a program adds to jobs.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "model/loss.hpp"
#include "nn/own_loss.hpp"
#include "tests/library/error_of.hpp"

namespace troupe::own_loss_test {
namespace {

/// Mean squared error over a sample's outputs.
double squares(const nn::loss_sample& sample) {
  double sum = 0;
  const auto count = static_cast<double>(sample.outputs.size());
  for (std::size_t i = 0; i < sample.outputs.size(); ++i) {
    const double error = double{sample.outputs[i]} - double{sample.targets[i]};
    sum += error * error / count;
    sample.outputs[i] = static_cast<float>(2 * error / count);
  }
  return sum;
}

/// Binary cross-entropy of a logit.
double logits(const nn::loss_sample& sample) {
  const double x = sample.outputs[0];
  const double target = sample.targets[0];
  sample.outputs[0] = static_cast<float>(1 / (1 + std::exp(-x)) - target);
  return std::max(x, 0.0) - x * target + std::log1p(std::exp(-std::abs(x)));
}

/// Cross-entropy.
double classes(const nn::loss_sample& sample) {
  double sum = 0;
  for (const float x : sample.outputs) sum += std::exp(double{x});
  const auto target = static_cast<std::size_t>(sample.target_class);
  const double loss = std::log(sum) - double{sample.outputs[target]};
  for (std::size_t k = 0; k < sample.outputs.size(); ++k)
    sample.outputs[k] = static_cast<float>(std::exp(double{sample.outputs[k]}) / sum - (k == target ? 1 : 0));
  return loss;
}

/// Adds the losses once in a process.
void add_all() {
  static const bool added = [] {
    nn::add_loss("own-mse", nn::loss_form::values, squares);
    nn::add_loss("own-bce", nn::loss_form::logits, logits);
    nn::add_loss("own-entropy", nn::loss_form::classes, classes);
    return true;
  }();
  ASSERT_TRUE(added);
}

actors::run_summary run(const std::string& data, const std::string& loss) {
  std::vector<model::setting> all = {{"data", data}, {"steps", "40"}, {"loss", loss}, {"micro-batches", "2"}};
  return nodes::run_job(model::parse_job(all).value(), {}, nullptr).value();
}

/// Expects the metrics of the same loss, except for the order of additions.
void expect_alike(const std::string& data, const std::string& own, const std::string& usual) {
  SCOPED_TRACE(own);
  const auto with_own = run(data, own).figures;
  const auto expected = run(data, usual).figures;
  EXPECT_NEAR(with_own.loss, expected.loss, 1e-5 * expected.loss);
  ASSERT_EQ(with_own.test_loss.has_value(), expected.test_loss.has_value());
  EXPECT_NEAR(with_own.test_loss.value_or(0), expected.test_loss.value_or(0), 1e-5);
  ASSERT_EQ(with_own.auc.has_value(), expected.auc.has_value());
  EXPECT_NEAR(with_own.auc.value_or(0), expected.auc.value_or(0), 1e-3);
  EXPECT_FALSE(with_own.rmse.has_value()) << "the root of an own loss is no error";
}

TEST(OwnLosses, TrainLikeTheSameLossesOfJobs) {
  add_all();
  expect_alike("synthetic", "own-bce", "bce-logits");
  expect_alike("synthetic", "own-entropy", "cross-entropy");
  expect_alike("synthetic", "own-mse", "mse");
  expect_alike("tutorial", "own-entropy", "cross-entropy");
}

TEST(OwnLosses, AreTheMeanOfABatch) {
  add_all();
  const auto job = model::parse_job({{"data", "synthetic"}, {"loss", "own-mse"}}).value();
  const auto loss = model::loss_of(job.loss, 2);
  std::vector<float> outputs = {1, 2, 3, 4};
  const std::vector<float> targets = {0, 0, 3, 3};
  double value = -1;
  loss(kernels::host_stream(), {2, 4}, {nullptr, targets.data()}, outputs.data(), &value);
  EXPECT_DOUBLE_EQ(value, ((1 + 4) / 2.0 + (0 + 1) / 2.0) / 4) << "2 samples of a batch of 4";
  EXPECT_EQ(outputs, (std::vector<float>{1.0F / 4, 2.0F / 4, 0, 1.0F / 4}));
}

TEST(OwnLosses, AreSettingsLikeTheOthers) {
  add_all();
  const auto job = model::parse_job({{"data", "synthetic"}, {"loss", "own-bce"}}).value();
  const auto settings = model::to_settings(job);
  EXPECT_EQ(*model::value_of(settings, "loss"), "own-bce");
  EXPECT_EQ(model::parse_job(settings).value(), job);
  EXPECT_FALSE(model::parse_job({{"data", "synthetic"}, {"loss", "bce-logits"}}).value() == job);
  const auto wrong = model::parse_job({{"data", "synthetic"}, {"loss", "own-bec"}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("own-bce"), std::string::npos) << wrong.error().message;
  EXPECT_FALSE(model::parse_job({{"data", "tutorial"}, {"loss", "own-bce"}})) << "targets in 8 classes";
}

TEST(OwnLosses, NeedANameOfTheirOwn) {
  add_all();
  const auto adding = [](const std::string& name) {
    return test::error_of([&] { nn::add_loss(name, nn::loss_form::values, squares); });
  };
  EXPECT_EQ(adding("mse"), "add_loss: there is a loss 'mse' already");
  EXPECT_EQ(adding("own-mse"), "add_loss: there is a loss 'own-mse' already");
  EXPECT_EQ(adding("Own"), "add_loss: the name 'Own' must be of lower-case letters, digits and '-', a letter first");
  EXPECT_EQ(test::error_of([] { nn::add_loss("nothing", nn::loss_form::values, {}); }),
            "add_loss: nothing has no function");
}

}  // namespace
}  // namespace troupe::own_loss_test
