// Metrics that a program adds to jobs.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "nn/own_metric.hpp"
#include "tests/library/error_of.hpp"

namespace troupe::own_metric_test {
namespace {

using settings = std::vector<model::setting>;

double squares(const nn::metric_sample& row) {
  double sum = 0;
  for (std::size_t i = 0; i < row.outputs.size(); ++i) {
    const double error = double{row.outputs[i]} - double{row.targets[i]};
    sum += error * error / static_cast<double>(row.outputs.size());
  }
  return sum;
}

/// Whether the most likely class is the true one (accuracy).
double is_right(const nn::metric_sample& row) {
  for (std::size_t k = 0; k < row.outputs.size(); ++k)
    if (row.outputs[k] > row.outputs[static_cast<std::size_t>(row.target_class)]) return 0;
  return 1;
}

/// The root mean square, from one sum.
nn::metric_of_sums root_of_squares() {
  return {.add = [](const nn::metric_sample& row, std::span<double> sums) { sums[0] += squares(row); },
          .result = [](std::span<const double> sums,
                       std::uint64_t rows) { return std::sqrt(sums[0] / static_cast<double>(rows)); }};
}

/// Adds the metrics once in a process.
void add_all() {
  static const bool added = [] {
    nn::add_metric("own-squares", nn::loss_form::values, squares);
    nn::add_metric("own-root", nn::loss_form::values, root_of_squares());
    nn::add_metric("own-accuracy", nn::loss_form::classes, is_right);
    return true;
  }();
  ASSERT_TRUE(added);
}

actors::run_summary run(settings all, const std::string& lr = "0.001") {
  all.insert(all.begin(),
             {{"data", "synthetic"}, {"steps", "10"}, {"batch-size", "32"}, {"dense-lr", lr}, {"sparse-lr", lr}});
  return nodes::run_job(model::parse_job(all).value(), {}, nullptr).value();
}

TEST(OwnMetrics, AreThoseOfTheSameDefinitionsThatJobsHave) {
  add_all();
  const auto values = run({{"loss", "mse"}, {"metrics", "own-root,own-squares"}}).figures;
  ASSERT_TRUE(values.test_loss && values.rmse);
  EXPECT_NEAR(values.own.value_of("own-squares").value_or(-1), *values.test_loss, 1e-12 * *values.test_loss);
  EXPECT_NEAR(values.own.value_of("own-root").value_or(-1), *values.rmse, 1e-12 * *values.rmse);
  EXPECT_EQ(values.own.begin()->name(), "own-root") << "in the job's order";
  const auto classes = run({{"loss", "cross-entropy"}, {"metrics", "own-accuracy"}}).figures;
  EXPECT_EQ(classes.own.value_of("own-accuracy"), classes.accuracy);
}

/// Rates of 0 leave the initial weights, which are the same for any number of trainers. Three trainers have 2, 1 and 1
/// of the 4 chunks of test rows.
TEST(OwnMetrics, HaveTheSameBitsForAnyNumberOfTrainers) {
  add_all();
  const auto value = [](const char* trainers) {
    const auto figures = run({{"loss", "mse"}, {"metrics", "own-squares"}, {"trainers", trainers}}, "0").figures;
    return figures.own.value_of("own-squares").value_or(-1);
  };
  const double alone = value("1");
  EXPECT_GT(alone, 0);
  for (const char* trainers : {"2", "3"})
    EXPECT_EQ(std::bit_cast<std::uint64_t>(value(trainers)), std::bit_cast<std::uint64_t>(alone)) << trainers;
}

TEST(OwnMetrics, ChangeNoWeights) {
  add_all();
  const auto with = run({{"loss", "mse"}, {"metrics", "own-squares"}});
  const auto without = run({{"loss", "mse"}});
  EXPECT_EQ(with.weights_digest, without.weights_digest);
  EXPECT_EQ(with.figures.test_loss, without.figures.test_loss);
  EXPECT_TRUE(without.figures.own.empty());
}

TEST(OwnMetrics, HaveNoValueWithoutAnEvaluation) {
  add_all();
  const auto figures = run({{"loss", "mse"}, {"metrics", "own-squares"}, {"eval-every", "0"}}).figures;
  ASSERT_FALSE(figures.own.empty());
  EXPECT_EQ(figures.own.begin()->value, std::nullopt);
}

TEST(OwnMetrics, AreASettingOfJobsThatHaveSome) {
  add_all();
  const settings given = {{"data", "synthetic"}, {"loss", "mse"}, {"metrics", "own-root,own-squares"}};
  const auto job = model::parse_job(given).value();
  const auto written = model::to_settings(job);
  EXPECT_EQ(*model::value_of(written, "metrics"), "own-root,own-squares");
  EXPECT_EQ(model::parse_job(written).value(), job);
  for (const auto& none : {settings{}, settings{{"metrics", "none"}}}) {
    const auto without = model::parse_job(none).value();
    EXPECT_EQ(without, model::parse_job({}).value());
    EXPECT_EQ(model::value_of(model::to_settings(without), "metrics"), nullptr);
  }
}

std::string refusal(const std::string& metrics, const std::string& loss = "mse") {
  const auto made = model::parse_job({{"data", "synthetic"}, {"loss", loss}, {"metrics", metrics}});
  return made ? "no refusal" : made.error().message;
}

TEST(OwnMetrics, ThatAJobCannotHaveAreRefused) {
  add_all();
  const std::string unknown = refusal("own-squares,own-rot");
  EXPECT_EQ(unknown.find("--metrics own-squares,own-rot: unknown metric own-rot; the nearest is own-root"), 0U)
      << unknown;
  EXPECT_NE(unknown.find("a program adds metrics by nn::add_metric"), std::string::npos) << unknown;
  EXPECT_EQ(refusal("own-root,own-root"), "--metrics own-root,own-root: 'own-root' is given twice");
  EXPECT_EQ(refusal("").find("--metrics '': unknown metric ''"), 0U) << refusal("");
  EXPECT_EQ(refusal("own-root,own-accuracy"),
            "--metrics own-accuracy: is of outputs that are classes, and with --loss mse they are values; leave one of "
            "them out");
  EXPECT_EQ(refusal("own-root", "cross-entropy"),
            "--metrics own-root: is of outputs that are values, and with --loss cross-entropy they are classes; leave "
            "one of them out");
}

TEST(OwnMetrics, NeedANameOfTheirOwn) {
  add_all();
  const auto adding = [](const std::string& name) {
    return test::error_of([&] { nn::add_metric(name, nn::loss_form::values, squares); });
  };
  for (const char* usual :
       {"loss", "auc", "accuracy", "log-loss", "calibration", "test-loss", "rmse", "staleness", "none"})
    EXPECT_EQ(adding(usual), "add_metric: there is a metric '" + std::string(usual) + "' already");
  EXPECT_EQ(adding("own-root"), "add_metric: there is a metric 'own-root' already");
  EXPECT_EQ(adding("test_loss"),
            "add_metric: the name 'test_loss' must be of lower-case letters, digits and '-', a letter first");
  EXPECT_EQ(adding(std::string(32, 'a')),
            "add_metric: " + std::string(32, 'a') + " is a name of 32 letters; use at most 31");
}

TEST(OwnMetrics, NeedTheirFunctions) {
  const auto adding = [](const nn::metric_of_sums& sums, nn::loss_form form = nn::loss_form::values) {
    return test::error_of([&] { nn::add_metric("nothing", form, sums); });
  };
  EXPECT_EQ(adding({}), "add_metric: nothing has no function");
  EXPECT_EQ(test::error_of([] { nn::add_metric("nothing", nn::loss_form::values, nn::metric_of_sample()); }),
            "add_metric: nothing has no function");
  nn::metric_of_sums without_sums = root_of_squares();
  without_sums.sums = 0;
  EXPECT_EQ(adding(without_sums), "add_metric: nothing has 0 sums; use between 1 and 64");
  EXPECT_EQ(adding(root_of_squares(), static_cast<nn::loss_form>(3)), "add_metric: nothing has no such form");
}

}  // namespace
}  // namespace troupe::own_metric_test
