// Groups the gradient of a table in one step by row: which bags of which rank contribute to each row.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/embedding_bag.hpp"
#include "kernels/optimizer.hpp"

namespace troupe::kernels {

/// Requires: at most `step_indices_max` (device.hpp) contributions a step. Thread: one at a time.
class row_groups {
 public:
  /// Starts a step; row numbers are below `row_count`.
  void clear(std::int64_t row_count);

  /// Adds the gradient `grad` [bags, dim] of rows pooled by `mode` (sum or mean). Bags without offsets hold one index
  /// each. Requires: calls in rank order.
  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride);

  /// Returns the contributions sorted by row, with `scale` as the factor of their sum. Valid until the next `clear`.
  row_gradients group(float scale);

 private:
  void sort_by_row();

  std::int64_t row_count_ = 0;
  // By contribution, in the order of `add`: its row, and its occurrence.
  std::vector<std::int64_t> row_of_;
  std::vector<occurrence> added_;
  std::vector<std::uint32_t> order_;  // indices of the contributions, sorted by row
  std::vector<std::uint32_t> order_before_;
  std::vector<std::uint32_t> digit_counts_;
  std::vector<const float*> sources_;
  std::vector<std::size_t> strides_;
  std::vector<std::int64_t> rows_;
  std::vector<std::uint32_t> starts_;
  std::vector<occurrence> occurrences_;
};

}  // namespace troupe::kernels
