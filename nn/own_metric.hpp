// Metrics of test rows that a program adds for jobs: `add_metric("mae", loss_form::values, absolute_error)` before the
// program reads a job. Every process of a run adds the same ones.

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

/// A test row, for a metric.
struct metric_sample {
  std::span<const float> outputs;       ///< the network's outputs for the row
  std::int64_t target_class = 0;        ///< loss_form::classes
  std::span<const float> targets = {};  ///< the other forms: one for each output
};

/// Returns a row's value. A pure function; thread: any.
using metric_of_sample = std::function<double(const metric_sample& sample)>;

/// A metric that is computed from sums over the test rows, such as precision or F1. Sums do not depend on the order of
/// the rows: each is exact and rounded once, with numbers of both signs once for each sign. Its functions are pure;
/// thread: any.
struct metric_of_sums {
  std::size_t sums = 1;  ///< at most `metric_sums_max`
  /// Adds a row's shares to the sums, which are 0 at the beginning of each call.
  std::function<void(const metric_sample& sample, std::span<double> sums)> add = {};
  /// Returns the metric over this many rows; NaN or Inf if it is undefined. A share that is not finite makes its sum
  /// NaN.
  std::function<double(std::span<const double> sums, std::uint64_t rows)> result = {};
};

constexpr std::size_t metric_sums_max = 64;
constexpr std::size_t metric_name_max = 31;
/// The most metrics of a job.
constexpr std::size_t metrics_max = 8;

struct own_metric {
  std::string name;
  loss_form form;  ///< of the losses that it can be used with
  metric_of_sums sums;
};

using own_metrics = std::vector<std::shared_ptr<const own_metric>>;

/// Adds a metric for jobs, `--metrics NAME`, with losses of that form: the mean of `of_sample` over the test rows,
/// computed on the processor. Throws `error` if the name is in use, also by a figure of jobs, or invalid. Thread: any;
/// before the first job is read.
void add_metric(const std::string& name, loss_form form, metric_of_sample of_sample);
/// The same for a metric that is not a mean.
void add_metric(const std::string& name, loss_form form, metric_of_sums sums);

/// Returns the added metrics, in the order of adding; they are never removed.
own_metrics added_metrics();

}  // namespace troupe::nn
