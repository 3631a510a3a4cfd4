// The sums of metrics added by the program (nn/own_metric.hpp), over test rows.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/exact_sum.hpp"
#include "model/metrics.hpp"
#include "nn/own_metric.hpp"

namespace troupe::model {

/// The sums of a job's metrics. They are exact, so their bits depend neither on the order of the rows nor on their
/// distribution over trainers. Thread: one at a time.
class metric_sums {
 public:
  explicit metric_sums(nn::own_metrics metrics = {});

  /// Adds the rows of `samples` with the network's `outputs` [size, width].
  void add(const batch& samples, std::size_t width, const float* outputs);

  /// Returns the sums for a message: for each sum its positive shares, then its negative ones, with exact_sum::size
  /// limbs each.
  std::vector<std::int64_t> limbs();
  /// Adds the sums of other rows. Returns false, and adds nothing, if these are not the limbs of the same metrics'
  /// sums.
  bool merge(std::span<const std::int64_t> limbs);

  /// Returns the metrics of `rows` rows; with 0 rows, none has a value.
  own_figures figures(std::uint64_t rows) const;

 private:
  nn::own_metrics metrics_;
  /// Two for each sum, metric by metric: of the positive shares, and of the negative ones without their sign.
  std::vector<exact_sum> sums_;
};

}  // namespace troupe::model
