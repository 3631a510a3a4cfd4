// How well a model predicts the test rows: counts over rows, which add up over the trainers' shares, and what is made
// of them. See "Metrics" in docs/training.md for the definitions. Functions may be called from any thread.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/batch.hpp"

namespace troupe::model {

/// What is told of an epoch: the mean loss of its samples, and what the test rows gave; that is absent where there was
/// no evaluation, and where a metric has no value.
struct epoch_figures {
  double loss = 0;
  std::optional<double> auc;
  std::optional<double> accuracy;
  std::optional<double> log_loss;
  std::optional<double> calibration;
  /// The mean of the job's loss over the test rows.
  std::optional<double> test_loss;
  /// With mse the square root of that.
  std::optional<double> rmse;

  bool operator==(const epoch_figures&) const = default;
};

/// Predictions of some test rows, counted.
struct predictions {
  /// All rows, and the sum of the job's loss over them; of a row with several outputs the mean over these.
  std::uint64_t tested = 0;
  double loss_sum = 0;
  /// Rows whose class was predicted; 0 where targets are no classes.
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

/// Adds the rows of `samples` to `p`; `outputs` [size, spec.outputs] are the network's for them. Sums are kept in
/// double and in the order of the rows.
void predict(const data_spec& spec, loss_kind loss, const batch& samples, const float* outputs, predictions& p);

/// Area under the ROC curve, ties counted half (the Mann-Whitney statistic); NaN if only one class occurs or a score is
/// NaN.
double area_under_curve(std::span<const float> scores, std::span<const float> labels);

/// The mean predicted probability of the positive class over the share of positive rows: 1 if the probabilities are
/// right on average, above 1 if they are too high. NaN if no label is positive.
double calibration(double probability_sum, std::span<const float> labels);

}  // namespace troupe::model
