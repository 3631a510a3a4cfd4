// Sums of a program's own metrics against values computed by hand, for any distribution of rows.

#include "model/metric_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::model::metric_sums_test {
namespace {

nn::own_metrics one_metric(std::string name, nn::metric_of_sums sums) {
  return {
      std::make_shared<const nn::own_metric>(nn::own_metric{std::move(name), nn::loss_form::values, std::move(sums)})};
}

/// The mean of output - target, or of its absolute value.
nn::own_metrics mean_error(bool is_absolute) {
  return one_metric("error", {.add =
                                  [is_absolute](const nn::metric_sample& row, std::span<double> sums) {
                                    const double error = double{row.outputs[0]} - double{row.targets[0]};
                                    sums[0] += is_absolute ? std::abs(error) : error;
                                  },
                              .result = [](std::span<const double> sums,
                                           std::uint64_t rows) { return sums[0] / static_cast<double>(rows); }});
}

/// Precision of outputs above 0: the share of rows with the target 1 among the rows with an output above 0.
nn::own_metrics precision() {
  return one_metric("precision",
                    {.sums = 2,
                     .add =
                         [](const nn::metric_sample& row, std::span<double> sums) {
                           if (row.outputs[0] <= 0) return;
                           sums[0] += row.targets[0];
                           sums[1] += 1;
                         },
                     .result = [](std::span<const double> sums, std::uint64_t /*rows*/) { return sums[0] / sums[1]; }});
}

batch rows_of(std::vector<float> targets) {
  batch samples;
  samples.size = targets.size();
  samples.values = std::move(targets);
  return samples;
}

std::optional<double> value_of(const nn::own_metrics& what, const std::vector<float>& targets,
                               const std::vector<float>& outputs) {
  metric_sums sums(what);
  sums.add(rows_of(targets), 1, outputs.data());
  const own_figures all = sums.figures(targets.size());
  EXPECT_EQ(std::distance(all.begin(), all.end()), 1);
  EXPECT_EQ(all.begin()->name(), what.front()->name);
  return all.value_of(what.front()->name);
}

TEST(MetricSums, AreThoseOfTheirDefinitions) {
  EXPECT_EQ(value_of(mean_error(true), {1, 2, 3, 4}, {2, 0, 3, 4.5F}), (1 + 2 + 0 + 0.5) / 4);
  EXPECT_EQ(value_of(mean_error(false), {1, 2, 3, 4}, {2, 0, 3, 4.5F}), (1 - 2 + 0 + 0.5) / 4);
  EXPECT_EQ(value_of(precision(), {1, 0, 1, 0, 1}, {2, 1, 0.5F, -1, -3}), 2.0 / 3);
}

TEST(MetricSums, HaveNoValueWhereNoneIsDefined) {
  EXPECT_EQ(value_of(precision(), {1, 0}, {-1, -1}), std::nullopt) << "0 of 0 rows";
  EXPECT_EQ(value_of(mean_error(true), {}, {}), std::nullopt) << "no rows";
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
    EXPECT_EQ(value_of(mean_error(false), {1, 2}, {1, odd}), std::nullopt) << odd;
}

TEST(MetricSums, OfClassesHaveTheClass) {
  const nn::own_metrics chosen = {std::make_shared<const nn::own_metric>(nn::own_metric{
      "margin",
      nn::loss_form::classes,
      {.add = [](const nn::metric_sample& row,
                 std::span<double> sums) { sums[0] += row.outputs[static_cast<std::size_t>(row.target_class)]; },
       .result = [](std::span<const double> sums, std::uint64_t /*rows*/) { return sums[0]; }}})};
  batch samples;
  samples.size = 2;
  samples.classes = {2, 0};
  metric_sums sums(chosen);
  const std::vector<float> outputs = {1, 2, 4, 8, 16, 32};
  sums.add(samples, 3, outputs.data());
  EXPECT_EQ(sums.figures(2).value_of("margin"), 4 + 8);
}

/// Errors of very different sizes, so that sums in double depend on their order.
std::vector<float> outputs_of_all_sizes(std::size_t count) {
  std::vector<float> outputs(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double mantissa = 1 + static_cast<double>(i * i * 7919 % 4093) / 4093;
    const auto size = static_cast<float>(std::ldexp(mantissa, static_cast<int>(i * 37 % 60) - 30));
    outputs[i] = i % 3 == 0 ? -size : size;
  }
  return outputs;
}

TEST(MetricSums, HaveTheSameBitsHoweverTheRowsAreSpread) {
  constexpr std::size_t rows = 997;
  const std::vector<float> outputs = outputs_of_all_sizes(rows);
  const auto forwards = std::accumulate(outputs.begin(), outputs.end(), 0.0);
  const auto backwards = std::accumulate(outputs.rbegin(), outputs.rend(), 0.0);
  ASSERT_NE(forwards, backwards) << "sums in double would not show the order of these";
  const nn::own_metrics what = mean_error(false);
  std::optional<double> expected;
  for (const std::size_t ranks : {1, 2, 3, 5}) {
    std::vector<metric_sums> of_rank(ranks, metric_sums(what));
    for (std::size_t first = 0; first < rows; first += 100)  // chunks in turn: the ranks' shares have different sizes
      of_rank[first / 100 % ranks].add(rows_of(std::vector<float>(std::min<std::size_t>(100, rows - first), 0)), 1,
                                       outputs.data() + first);
    for (const bool last_first : {false, true}) {
      metric_sums all(what);
      for (std::size_t i = 0; i < ranks; ++i) ASSERT_TRUE(all.merge(of_rank[last_first ? ranks - 1 - i : i].limbs()));
      const auto value = all.figures(rows).value_of("error");
      ASSERT_TRUE(value);
      if (!expected) expected = value;
      EXPECT_EQ(std::bit_cast<std::uint64_t>(*value), std::bit_cast<std::uint64_t>(*expected)) << ranks << " ranks";
    }
  }
  EXPECT_NEAR(*expected * static_cast<double>(rows), forwards, std::abs(forwards) * 1e-9);
}

TEST(MetricSums, OfOtherMetricsAreNotAdded) {
  metric_sums sums(mean_error(true));
  EXPECT_FALSE(sums.merge(metric_sums(precision()).limbs()));
  EXPECT_FALSE(sums.merge({}));
  auto limbs = metric_sums(mean_error(true)).limbs();
  EXPECT_TRUE(sums.merge(limbs));
  limbs.back() = -1;
  EXPECT_FALSE(sums.merge(limbs));
  EXPECT_TRUE(metric_sums().merge({}));
  EXPECT_TRUE(metric_sums().figures(3).empty());
}

TEST(OwnFigures, KeepWhatAJobMayHave) {
  own_figures figures;
  const std::string longest(nn::metric_name_max, 'a');
  figures.add(longest, 1);
  figures.add(longest + "b", 2);
  for (std::size_t i = 2; i <= nn::metrics_max; ++i) figures.add("x", std::nullopt);
  EXPECT_EQ(std::distance(figures.begin(), figures.end()), static_cast<std::ptrdiff_t>(nn::metrics_max));
  EXPECT_EQ((figures.begin() + 1)->name(), longest) << "a longer name is cut";
  EXPECT_EQ(figures.value_of("nothing"), std::nullopt);
}

}  // namespace
}  // namespace troupe::model::metric_sums_test
