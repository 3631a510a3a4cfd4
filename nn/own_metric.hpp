// Metrics of test rows that a program adds to those that jobs have: `add_metric("mae", loss_form::values,
// absolute_error)` before the program reads a job. Every process of a run adds the same ones.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/own_loss.hpp"

namespace troupe::nn {

/// A test row, as a metric sees it.
struct metric_sample {
  std::span<const float> outputs;       ///< what the network has computed of the row
  std::int64_t target_class = 0;        ///< loss_form::classes
  std::span<const float> targets = {};  ///< the other forms: one for each output
};

/// Returns a row's value. A pure function; thread: any.
using metric_of_sample = std::function<double(const metric_sample& sample)>;

/// A metric that follows from sums over the test rows, such as precision or F1. Sums are exact, whatever the order of
/// the rows: each is rounded once, of numbers of both signs once for each. Its functions are pure; thread: any.
struct metric_of_sums {
  std::size_t sums = 1;  ///< at most `metric_sums_max`
  /// Adds a row's shares to the sums, which are 0 at each call.
  std::function<void(const metric_sample& sample, std::span<double> sums)> add = {};
  /// Returns the metric of so many rows; NaN or Inf: it is not defined. A share that is not finite makes its sum NaN.
  std::function<double(std::span<const double> sums, std::uint64_t rows)> result = {};
};

constexpr std::size_t metric_sums_max = 64;
constexpr std::size_t metric_name_max = 31;
/// The most metrics that a job names.
constexpr std::size_t metrics_max = 8;

struct own_metric {
  std::string name;
  loss_form form;  ///< of the losses that it goes with
  metric_of_sums sums;
};

using own_metrics = std::vector<std::shared_ptr<const own_metric>>;

/// Has jobs name a metric, `--metrics NAME`, with losses of that form: the mean of `of_sample` over the test rows. It
/// computes on the processor. Throws `error` if the name is taken, also by a figure that jobs have, or does not fit.
/// Thread: any; before the first job is read.
void add_metric(const std::string& name, loss_form form, metric_of_sample of_sample);
/// The same of a metric that is more than a mean.
void add_metric(const std::string& name, loss_form form, metric_of_sums sums);

/// Returns the metrics that have been added, in their order; they stay.
own_metrics added_metrics();

}  // namespace troupe::nn
