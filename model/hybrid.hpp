// The hybrid model: several embedding tables and dense features into an MLP, and a loss.
//
// The network's input is the dense features first, then the tables' pooled rows in order. The tables' rows come from
// elsewhere (parameter servers); this is the dense side, as every trainer holds it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/data.hpp"
#include "model/mlp.hpp"

namespace troupe {

class hybrid_model {
 public:
  hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden, loss_kind loss);

  const mlp& network() const { return network_; }
  const data_spec& spec() const { return spec_; }

  /// Width of the network's input.
  std::size_t in_features() const { return network_.in_features(); }

  /// Where table `table`'s pooled row begins in a row of the input.
  std::size_t column_of(std::size_t table) const { return columns_[table]; }

  /// Copies the dense features into their columns of `input` [size, in_features].
  void place_dense(const batch& samples, float* input) const;

  /// Mean loss over the batch, and its gradient with respect to `outputs` [size, outputs] in place.
  double loss(const batch& samples, float* outputs) const;

  /// How well `outputs` predict: see `predictions`.
  struct predictions {
    std::uint64_t correct = 0;
    /// Binary targets only: scores that grow with the probability of the positive class, and labels 0 or 1.
    std::vector<float> scores;
    std::vector<float> labels;
  };

  /// True if targets are binary, so that an AUC exists.
  bool is_binary() const;

  /// Adds the batch's rows to `p`.
  void predict(const batch& samples, const float* outputs, predictions& p) const;

 private:
  data_spec spec_;
  loss_kind loss_;
  std::vector<std::size_t> columns_;
  mlp network_;
};

/// Area under the ROC curve, ties counted half (the Mann-Whitney statistic); NaN if only one class occurs or a score is
/// NaN.
double area_under_curve(std::span<const float> scores, std::span<const float> labels);

}  // namespace troupe
