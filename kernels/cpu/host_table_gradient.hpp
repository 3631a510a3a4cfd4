// The gradients of tables in one step, on the processor: of one table, grouped by row and then applied; and of several,
// one after the other.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// Thread: one at a time.
class host_table_gradient {
 public:
  void clear(std::int64_t row_count);
  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride);
  void group();
  std::span<const double> squared_norms(std::size_t dim, float scale);
  void apply(const update_constants& c, std::size_t dim, table_view table, optimizer_state_view state, float scale,
             bool every_row);
  std::int64_t bad_row() const { return bad_row_; }
  std::int64_t row_count() const { return row_count_; }

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

/// Thread: one at a time.
class host_table_gradients final : public table_gradient {
 public:
  void clear() override { count_ = 0; }
  std::size_t add_table(std::int64_t row_count) override;
  void add(std::size_t table, pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) override;
  void group() override;
  std::span<const std::span<const double>> norms_by_table(std::size_t dim, float scale) override;
  void apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) override;
  std::int64_t bad_row() override { return bad_row_; }

 private:
  std::span<host_table_gradient> tables() { return {tables_.data(), count_}; }

  std::vector<host_table_gradient> tables_;  // those beyond `count_` keep their memory for later steps
  std::size_t count_ = 0;
  std::vector<std::span<const double>> norms_;
  std::int64_t bad_row_ = -1;
};

}  // namespace troupe::kernels
