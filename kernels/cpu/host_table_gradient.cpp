#include "kernels/cpu/host_table_gradient.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

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
  std::size_t next = added_.size();
  added_.resize(row_of_.size());
  if (bags.offsets.empty()) {
    for (std::size_t i = 0; i < bags.indices.size(); ++i)
      added_[next++] = {source, static_cast<std::uint32_t>(i), 1.0F};
    return;
  }
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    const std::size_t begin = bags.begin_of(bag);
    const std::size_t end = bags.end_of(bag);
    const float scale = mode == pooling::mean ? 1.0F / static_cast<float>(end - begin) : 1.0F;
    for (std::size_t i = begin; i < end; ++i)
      added_[next++] = {source, static_cast<std::uint32_t>(bag), bags.weights.empty() ? scale : bags.weights[i]};
  }
}

/// A radix sort of words that have a contribution's row above its index, so they remain in order within a row. The
/// number of passes depends on the table's height: one for 2048 rows, two for four million.
void host_table_gradient::sort_by_row() {
  constexpr int digit_bits = 11;
  const std::size_t size = row_of_.size();
  index_bits_ = std::bit_width(std::max<std::size_t>(size, 1) - 1);
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(row_count_ - 1, 0)));
  if (row_bits + index_bits_ > 64) throw std::length_error("too many indices in a step for a table of so many rows");
  sorted_.resize(std::max(sorted_.size(), size));
  unsorted_.resize(std::max(unsorted_.size(), size));
  for (std::size_t i = 0; i < size; ++i) sorted_[i] = static_cast<std::uint64_t>(row_of_[i]) << index_bits_ | i;
  const int passes = (row_bits + digit_bits - 1) / digit_bits;
  for (int pass = 0, shift = index_bits_; pass < passes; ++pass) {
    const int bits = (index_bits_ + row_bits - shift) / (passes - pass);
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    digit_counts_.assign(mask + 2, 0);
    std::uint32_t* const begin_of = digit_counts_.data();
    sorted_.swap(unsorted_);
    const std::uint64_t* const from = unsorted_.data();
    std::uint64_t* const to = sorted_.data();
    for (std::size_t i = 0; i < size; ++i) ++begin_of[((from[i] >> shift) & mask) + 1];
    std::partial_sum(begin_of, begin_of + mask + 2, begin_of);
    for (std::size_t i = 0; i < size; ++i) to[begin_of[(from[i] >> shift) & mask]++] = from[i];
    shift += bits;
  }
}

void host_table_gradient::group() {
  sort_by_row();
  const std::size_t size = row_of_.size();
  // Sized for as many rows as contributions, which changes little from step to step.
  rows_.resize(std::max(rows_.size(), size));
  starts_.resize(std::max(starts_.size(), size + 1));
  occurrences_.resize(std::max(occurrences_.size(), size));
  const std::uint64_t index_mask = (std::uint64_t{1} << index_bits_) - 1;
  std::size_t rows = 0;
  std::int64_t last = -1;
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<std::int64_t>(sorted_[i] >> index_bits_);
    if (row != last) {
      rows_[rows] = last = row;
      starts_[rows++] = static_cast<std::uint32_t>(i);
    }
    occurrences_[i] = added_[sorted_[i] & index_mask];
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

std::size_t host_table_gradients::add_table(std::int64_t row_count) {
  if (count_ == tables_.size()) tables_.emplace_back();
  tables_[count_].clear(row_count);
  return count_++;
}

void host_table_gradients::add(std::size_t table, pooling mode, const bags_view& bags, const float* grad,
                               std::size_t grad_stride) {
  tables()[table].add(mode, bags, grad, grad_stride);
}

void host_table_gradients::group() {
  for (host_table_gradient& one : tables()) one.group();
}

std::span<const std::span<const double>> host_table_gradients::norms_by_table(std::size_t dim, float scale) {
  norms_.clear();
  for (host_table_gradient& one : tables()) norms_.push_back(one.squared_norms(dim, scale));
  return norms_;
}

void host_table_gradients::apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) {
  bad_row_ = -1;
  std::int64_t first_row = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const table_step& step = steps[i];
    if (step.weights != nullptr) {
      tables_[i].apply(step.constants, dim, {step.weights, type}, step.state, step.scale, every_row);
      if (bad_row_ < 0 && tables_[i].bad_row() >= 0) bad_row_ = first_row + tables_[i].bad_row();
    }
    first_row += tables_[i].row_count();
  }
}

}  // namespace troupe::kernels
