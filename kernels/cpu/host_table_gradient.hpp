// The gradients of tables in one step, on the processor: for one table, grouped by row and then applied; and for
// several, one after the other.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

template <class Word>
struct sort_words {
  std::vector<Word> sorted;
  std::vector<Word> unsorted;
};

/// Memory for sorting a table's indices, in 32 bits each if they fit. Tables use it in turn, so that it stays in the
/// caches.
struct sort_memory {
  sort_words<std::uint32_t> narrow;
  sort_words<std::uint64_t> wide;
};

/// The arrays of one table's grouped gradient.
struct group_memory {
  std::vector<std::int64_t> rows;
  std::vector<std::uint32_t> starts;
  std::vector<occurrence> occurrences;
};

/// The gradients added to one table in a step. Thread: one at a time.
class host_table_gradient {
 public:
  void clear(std::int64_t row_count);
  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride);

  /// Returns which bags of which source contribute to each row, with a scale of 1. It points into `to`, and is valid
  /// until `to` is used again, or something is added or cleared.
  row_gradients group(sort_memory& memory, group_memory& to) const;

  std::int64_t row_count() const { return row_count_; }

 private:
  struct numbered_bags {
    bags_view bags;
    std::uint32_t first_number;  ///< of its first occurrence, in `added_`
  };

  template <class Word>
  void sort_by_row(int row_bits, int number_bits, sort_words<Word>& words) const;
  template <class Word>
  row_gradients group_sorted(const Word* sorted, int number_bits, group_memory& to) const;

  std::int64_t row_count_ = 0;
  std::vector<numbered_bags> bags_;
  std::size_t index_count_ = 0;
  std::vector<occurrence> added_;  // one for each bag; if indices have weights, or there are no bags, for each index
  std::vector<const float*> sources_;
  std::vector<std::size_t> strides_;
};

/// Thread: one at a time.
class host_table_gradients final : public table_gradient {
 public:
  void clear() override;
  std::size_t add_table(std::int64_t row_count) override;
  void add(std::size_t table, pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) override;
  void group() override {}  // done table by table, when needed
  std::span<const std::span<const double>> norms_by_table(std::size_t dim, float scale) override;
  void apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) override;
  std::int64_t bad_row() override { return bad_row_; }

 private:
  std::vector<host_table_gradient> tables_;  // those beyond `count_` keep their memory for later steps
  std::size_t count_ = 0;
  sort_memory sort_memory_;
  group_memory group_memory_;  // for one table after the other, in `apply`
  // The tables' grouped gradients and their norms, from `norms_by_table`.
  std::vector<group_memory> kept_memory_;
  std::vector<row_gradients> kept_;
  std::vector<std::vector<double>> norms_;
  std::vector<std::span<const double>> norms_by_table_;
  std::int64_t bad_row_ = -1;
};

}  // namespace troupe::kernels
