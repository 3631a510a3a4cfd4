#include "kernels/cpu/host_table_gradient.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace troupe::kernels {

void host_table_gradient::clear(std::int64_t row_count) {
  row_count_ = row_count;
  row_of_.clear();
  added_.clear();
  sources_.clear();
  strides_.clear();
}

void host_table_gradient::add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) {
  const auto source = static_cast<std::uint32_t>(sources_.size());
  sources_.push_back(grad);
  strides_.push_back(grad_stride);
  row_of_.insert(row_of_.end(), bags.indices.begin(), bags.indices.end());
  added_.reserve(row_of_.size());
  if (bags.offsets.empty()) {
    for (std::size_t i = 0; i < bags.indices.size(); ++i)
      added_.push_back({source, static_cast<std::uint32_t>(i), 1.0F});
    return;
  }
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    const std::size_t begin = bags.begin_of(bag);
    const std::size_t end = bags.end_of(bag);
    const float scale = mode == pooling::mean ? 1.0F / static_cast<float>(end - begin) : 1.0F;
    for (std::size_t i = begin; i < end; ++i)
      added_.push_back({source, static_cast<std::uint32_t>(bag), bags.weights.empty() ? scale : bags.weights[i]});
  }
}

// A stable radix sort of indices, so that the moved data is small and stays in the cache. The number of passes depends
// on the table's height: one for 2048 rows, two for four million.
void host_table_gradient::sort_by_row() {
  constexpr int digit_bits = 11;
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(row_count_ - 1, 0)));
  order_.resize(row_of_.size());
  order_before_.resize(row_of_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  for (int shift = 0; shift < row_bits; shift += digit_bits) {
    const int bits = std::min(digit_bits, row_bits - shift);
    const std::int64_t mask = (std::int64_t{1} << bits) - 1;
    const auto digit_of = [shift, mask](std::int64_t row) { return static_cast<std::size_t>((row >> shift) & mask); };
    digit_counts_.assign((std::size_t{1} << bits) + 1, 0);
    for (const std::int64_t row : row_of_) ++digit_counts_[digit_of(row) + 1];
    std::partial_sum(digit_counts_.begin(), digit_counts_.end(), digit_counts_.begin());
    order_.swap(order_before_);
    for (const std::uint32_t index : order_before_) order_[digit_counts_[digit_of(row_of_[index])]++] = index;
  }
}

void host_table_gradient::group() {
  sort_by_row();
  const std::size_t size = order_.size();
  // Sized for as many rows as contributions, which changes little from step to step.
  rows_.resize(std::max(rows_.size(), size));
  starts_.resize(std::max(starts_.size(), size + 1));
  occurrences_.resize(std::max(occurrences_.size(), size));
  std::size_t rows = 0;
  std::int64_t last = -1;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t index = order_[i];
    const std::int64_t row = row_of_[index];
    if (row != last) {
      rows_[rows] = last = row;
      starts_[rows++] = static_cast<std::uint32_t>(i);
    }
    occurrences_[i] = added_[index];
  }
  starts_[rows] = static_cast<std::uint32_t>(size);
  grouped_ = {{rows_.data(), rows}, {starts_.data(), rows + 1}, {occurrences_.data(), size}, sources_, strides_, 1.0F};
}

std::span<const double> host_table_gradient::squared_norms(std::size_t dim, float scale) {
  grouped_.scale = scale;
  norms_.resize(grouped_.rows.size());
  row_squared_norms(dim, grouped_, norms_.data());
  return norms_;
}

void host_table_gradient::apply(const update_constants& c, std::size_t dim, table_view table,
                                optimizer_state_view state, float scale, bool every_row) {
  grouped_.scale = scale;
  if (update_rows(c, row_count_, dim, table, state, grouped_, every_row, &bad_row_)) bad_row_ = -1;
}

}  // namespace troupe::kernels
