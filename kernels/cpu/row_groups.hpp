// The gradient of a table in one step, regrouped from bags to rows: which bags of which rank contribute to each row.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/embedding_bag.hpp"
#include "kernels/optimizer.hpp"

namespace troupe::kernels {

/// Takes at most `step_indices_max` (device.hpp) contributions a step.
class row_groups {
 public:
  /// Starts anew; row numbers will be below `row_count`.
  void clear(std::int64_t row_count);

  /// Adds the next source, in rank order: the gradient `grad` [bags, dim] of rows pooled by `mode` (sum or mean).
  /// Bags without offsets stand for one bag for each index.
  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride);

  /// The contributions sorted by row, with `scale` on their sum; valid until the next `clear`.
  row_gradients group(float scale);

 private:
  void sort_by_row();

  std::int64_t row_count_ = 0;
  // Of each contribution in the order in which it was added: its row, and the rest of it.
  std::vector<std::int64_t> row_of_;
  std::vector<occurrence> added_;
  std::vector<std::uint32_t> order_;  // the contributions' places in the order of their rows
  std::vector<std::uint32_t> order_before_;
  std::vector<std::uint32_t> digit_counts_;
  std::vector<const float*> sources_;
  std::vector<std::size_t> strides_;
  std::vector<std::int64_t> rows_;
  std::vector<std::uint32_t> starts_;
  std::vector<occurrence> occurrences_;
};

}  // namespace troupe::kernels
