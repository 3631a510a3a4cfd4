#include "nn/own_metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "nn/added_names.hpp"

namespace troupe::nn {

namespace {

added_names<std::shared_ptr<const own_metric>>& all_metrics() {
  static added_names<std::shared_ptr<const own_metric>> all("add_metric", "a metric");
  return all;
}

/// Names in tables and files of figures, and `none`, which a job may give instead of names.
constexpr std::array<std::string_view, 15> usual_figures = {
    "accuracy", "auc",     "calibration",   "epoch",   "log-loss",  "loss",  "none",     "rmse",
    "step",     "samples", "samples-per-s", "seconds", "staleness", "steps", "test-loss"};

}  // namespace

void add_metric(const std::string& name, loss_form form, metric_of_sums sums) {
  check_added_name("add_metric", "name", name, '-');
  const auto refuse = [&name](const std::string& why) {
    throw error(error_kind::input, fmt::format("add_metric: {} {}", name, why));
  };
  if (name.size() > metric_name_max)
    refuse(fmt::format("is a name of {} letters; use at most {}", name.size(), metric_name_max));
  if (form > loss_form::values) refuse("has no such form");
  if (!sums.add || !sums.result) refuse("has no function");
  if (sums.sums < 1 || sums.sums > metric_sums_max)
    refuse(fmt::format("has {} sums; use between 1 and {}", sums.sums, metric_sums_max));
  all_metrics().add(name, std::ranges::find(usual_figures, name) != usual_figures.end(),
                    std::make_shared<const own_metric>(own_metric{name, form, std::move(sums)}));
}

void add_metric(const std::string& name, loss_form form, metric_of_sample of_sample) {
  metric_of_sums mean;
  if (of_sample)
    mean.add = [of_sample = std::move(of_sample)](const metric_sample& sample, std::span<double> sums) {
      sums[0] = of_sample(sample);
    };
  mean.result = [](std::span<const double> sums, std::uint64_t rows) { return sums[0] / static_cast<double>(rows); };
  add_metric(name, form, std::move(mean));
}

own_metrics added_metrics() { return all_metrics().all(); }

}  // namespace troupe::nn
