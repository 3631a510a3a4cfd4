// The gradients of tables on a CUDA device: lists the contributions, sorts them by row (stable), and sums them where
// the sums are used. The rows of all tables are numbered consecutively, so that each of these steps is one launch, for
// any number of tables. The number of distinct rows stays on the device until the host needs it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/device_bags.hpp"
#include "kernels/cuda/row_sums.hpp"
#include "kernels/device.hpp"
#include "kernels/device_array.hpp"

namespace troupe::kernels::cuda {

class cuda_table_gradient : public table_gradient {
 public:
  /// Requires: the stream outlives it.
  explicit cuda_table_gradient(cuda_stream& stream) : stream_(stream) {}
  ~cuda_table_gradient() override;
  cuda_table_gradient(const cuda_table_gradient&) = delete;
  cuda_table_gradient& operator=(const cuda_table_gradient&) = delete;

  void clear() override;
  std::size_t add_table(std::int64_t row_count) override;
  void add(std::size_t table, pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) override;
  void group() override;
  std::span<const std::span<const double>> norms_by_table(std::size_t dim, float scale) override;
  void apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) override;
  std::int64_t bad_row() override;

 private:
  template <class Key>
  struct key_arrays {
    device_array<Key> listed, sorted;
  };

  struct source {
    std::size_t table;
    pooling mode;
    device_bags bags;
    const float* grad;
    std::size_t stride;
  };

  template <class Key>
  void group_by(key_arrays<Key>& keys);
  template <class Key>
  void list_contributions(Key* keys);
  grouped_rows grouped() const;
  /// Upper bound of the number of distinct rows.
  std::size_t rows_bound() const;
  /// Upper bound of the number of long rows (long_rows.cu).
  std::size_t long_rows_bound() const;
  void sum_long_rows(std::size_t dim);
  /// Staging memory, for one result at a time.
  template <class T>
  T* staging(std::size_t count) {
    return reinterpret_cast<T*>(staging_.make(stream_, count * sizeof(T)));
  }

  cuda_stream& stream_;
  std::vector<std::int64_t> first_rows_;  // the number of each table's first row
  std::int64_t row_count_ = 0;            // of all tables
  std::vector<source> sources_;
  std::size_t contribution_count_ = 0;

  key_arrays<std::uint32_t> short_keys_;
  key_arrays<std::uint64_t> long_keys_;  // for tables of more than 2^32 rows
  device_array<std::uint32_t> listed_order_, order_;
  device_array<contribution> listed_, contributions_;
  device_array<std::byte> sort_scratch_;
  device_array<std::uint32_t> run_numbers_;  // row numbers from 1, by sorted contribution
  device_array<std::int64_t> rows_;
  device_array<std::uint32_t> starts_;  // of the rows, and the end of the last one
  device_array<std::uint32_t> begins_, ends_;
  device_array<std::uint32_t> distinct_;
  device_array<float> long_sums_;
  bool long_rows_summed_ = false;
  device_array<double> norms_;
  device_array<std::uint32_t> table_ends_;  // by table: the end of its rows in the distinct ones
  std::vector<std::span<const double>> norms_by_table_;
  device_array<std::uint64_t> bad_rows_;
  // Call n of `apply` has index n modulo `applies_max` here: whether it writes a bad row, and which row that is.
  std::array<bool, applies_max> has_bad_row_{};
  staging_array<std::int64_t> bad_rows_on_host_;
  std::uint64_t applies_ = 0;  // calls of `apply`
  std::uint64_t asked_ = 0;    // calls whose bad row was requested
  staging_array<std::byte> staging_;
};

/// Calls body(width, packs): how many columns a lane loads at once, and how often, for rows of `dim` numbers.
/// `fit_packs`: whether the rows are aligned for packs of four.
template <class Body>
void with_shape(bool fit_packs, std::size_t dim, const Body& body) {
  const auto by_width = [&](auto columns) {
    if (dim <= std::size_t{32} * columns) return body(columns, width<1>());
    body(columns, width<4>());
  };
  if (fit_packs && dim % 4 == 0) return by_width(width<4>());
  by_width(width<1>());
}

}  // namespace troupe::kernels::cuda
