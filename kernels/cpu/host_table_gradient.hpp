// The gradient of a table in one step, on the processor: grouped by row, then applied.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// Thread: one at a time.
class host_table_gradient final : public table_gradient {
 public:
  void clear(std::int64_t row_count) override;
  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) override;
  void group() override;
  std::span<const double> squared_norms(std::size_t dim, float scale) override;
  void apply(const update_constants& c, std::size_t dim, table_view table, optimizer_state_view state, float scale,
             bool every_row) override;
  std::int64_t bad_row() override { return bad_row_; }

  /// Returns what `group` made: which bags of which rank contribute to each row. Valid until the next `clear`.
  const row_gradients& grouped() const { return grouped_; }

 private:
  void sort_by_row();

  std::int64_t row_count_ = 0;
  // By contribution, in the order of `add`: its row, and its occurrence.
  std::vector<std::int64_t> row_of_;
  std::vector<occurrence> added_;
  std::vector<std::uint64_t> sorted_;  // a contribution's row above its index, of `index_bits_`
  std::vector<std::uint64_t> unsorted_;
  int index_bits_ = 0;
  std::vector<std::uint32_t> digit_counts_;
  // What `grouped_` points into.
  std::vector<const float*> sources_;
  std::vector<std::size_t> strides_;
  std::vector<std::int64_t> rows_;
  std::vector<std::uint32_t> starts_;
  std::vector<occurrence> occurrences_;
  row_gradients grouped_;
  std::vector<double> norms_;
  std::int64_t bad_row_ = -1;
};

}  // namespace troupe::kernels
