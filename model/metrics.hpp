// Evaluation metrics: sums over test rows, which can be added over the trainers' shares, and the metrics computed from
// them. See "Metrics" in docs/training.md for the definitions. Thread: any.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/batch.hpp"
#include "nn/own_metric.hpp"

namespace troupe::model {

/// The values of metrics added by the program, in the job's order. Attempts at a run pass them on as bytes.
class own_figures {
 public:
  struct figure {
    std::array<char, nn::metric_name_max + 1> text{};  ///< the name, terminated by 0
    std::optional<double> value;                       ///< null: the epoch has no value

    std::string_view name() const { return text.data(); }
    bool operator==(const figure&) const = default;
  };

  /// Drops, as no job has them, metrics beyond nn::metrics_max, and letters beyond nn::metric_name_max.
  void add(std::string_view name, std::optional<double> value) {
    if (count_ == all_.size()) return;
    figure& one = all_[count_++];
    std::ranges::copy(name.substr(0, nn::metric_name_max), one.text.begin());
    one.value = value;
  }

  const figure* begin() const { return all_.data(); }
  const figure* end() const { return all_.data() + count_; }
  bool empty() const { return count_ == 0; }
  /// Returns the value of a metric, or null.
  std::optional<double> value_of(std::string_view name) const {
    const figure* found = std::ranges::find(begin(), end(), name, &figure::name);
    return found == end() ? std::nullopt : found->value;
  }

  bool operator==(const own_figures&) const = default;

 private:
  std::array<figure, nn::metrics_max> all_{};
  std::size_t count_ = 0;
};

/// The sources of a job's figures: its loss, and the metrics that it names.
struct figure_sources {
  loss_choice loss = {};
  nn::own_metrics metrics = {};
};

/// The metrics of an epoch: the mean loss of its samples, and the metrics of the test rows, which are null without an
/// evaluation, or if they are undefined.
struct epoch_figures {
  double loss = 0;
  std::optional<double> auc;
  std::optional<double> accuracy;
  std::optional<double> log_loss;
  std::optional<double> calibration;
  /// The mean of the job's loss over the test rows.
  std::optional<double> test_loss;
  /// The square root of `test_loss`, if the loss is mse.
  std::optional<double> rmse;
  own_figures own = {};

  bool operator==(const epoch_figures&) const = default;
};

/// Sums over the predictions of test rows.
struct predictions {
  /// All rows, and the sum of the job's loss over them; for a row with several outputs, the mean over these.
  std::uint64_t tested = 0;
  double loss_sum = 0;
  /// Rows with a predicted class; 0 if the targets are not classes.
  std::uint64_t rows = 0;
  /// Rows whose most likely class is the true one.
  std::uint64_t correct = 0;
  /// Sum over the rows of -log(probability of the true class); NaN with mse, which predicts no probabilities.
  double log_loss_sum = 0;
  /// Binary targets only: sum over the rows of the probability of the positive class (with mse the output itself).
  double probability_sum = 0;
  /// Binary targets only, one for each row: a score that grows with the probability of the positive class, and the
  /// label, 0 or 1.
  std::vector<float> scores;
  std::vector<float> labels;
};

/// Adds the rows of `samples` with the network's `outputs` [size, spec.outputs] to `p`, in double and in row order.
void predict(const data_spec& spec, const loss_choice& loss, const batch& samples, const float* outputs,
             predictions& p);

/// Returns the area under the ROC curve, ties counted half (the Mann-Whitney statistic); NaN if only one class occurs
/// or a score is NaN.
double area_under_curve(std::span<const float> scores, std::span<const float> labels);

/// Returns the mean predicted probability of the positive class divided by the share of positive rows: 1 if the
/// probabilities are right on average, above 1 if they are too high; NaN if no label is positive.
double calibration(double probability_sum, std::span<const float> labels);

}  // namespace troupe::model
