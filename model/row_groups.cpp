#include "model/row_groups.hpp"

#include <algorithm>
#include <bit>

namespace troupe {

void row_groups::clear(std::int64_t row_count) {
  row_count_ = row_count;
  entries_.clear();
  sources_.clear();
  strides_.clear();
}

void row_groups::add(kernels::pooling mode, const kernels::bags_view& bags, const float* grad,
                     std::size_t grad_stride) {
  const auto source = static_cast<std::uint32_t>(sources_.size());
  sources_.push_back(grad);
  strides_.push_back(grad_stride);
  entries_.reserve(entries_.size() + bags.indices.size());
  if (bags.offsets.empty()) {
    for (std::size_t i = 0; i < bags.indices.size(); ++i)
      entries_.push_back({bags.indices[i], {source, static_cast<std::uint32_t>(i), 1.0F}});
    return;
  }
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    const std::size_t begin = bags.begin_of(bag);
    const std::size_t end = bags.end_of(bag);
    const float scale = mode == kernels::pooling::mean ? 1.0F / static_cast<float>(end - begin) : 1.0F;
    for (std::size_t i = begin; i < end; ++i)
      entries_.push_back(
          {bags.indices[i], {source, static_cast<std::uint32_t>(bag), bags.weights.empty() ? scale : bags.weights[i]}});
  }
}

// A stable radix sort by row keeps sources and occurrences in order, and passes over the entries only as often as the
// table's height asks for: once for 2048 rows, twice for four million.
kernels::row_gradients row_groups::group(float scale) {
  constexpr int digit_bits = 11;
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(row_count_ - 1, 0)));
  sorted_.resize(entries_.size());
  for (int shift = 0; shift < row_bits; shift += digit_bits) {
    const int bits = std::min(digit_bits, row_bits - shift);
    const std::int64_t mask = (std::int64_t{1} << bits) - 1;
    digit_counts_.assign((std::size_t{1} << bits) + 1, 0);
    for (const entry& e : entries_) ++digit_counts_[static_cast<std::size_t>((e.row >> shift) & mask) + 1];
    for (std::size_t d = 1; d < digit_counts_.size(); ++d) digit_counts_[d] += digit_counts_[d - 1];
    for (const entry& e : entries_) sorted_[digit_counts_[static_cast<std::size_t>((e.row >> shift) & mask)]++] = e;
    entries_.swap(sorted_);
  }

  rows_.clear();
  starts_.clear();
  occurrences_.clear();
  for (const entry& e : entries_) {
    if (rows_.empty() || rows_.back() != e.row) {
      rows_.push_back(e.row);
      starts_.push_back(static_cast<std::uint32_t>(occurrences_.size()));
    }
    occurrences_.push_back(e.what);
  }
  starts_.push_back(static_cast<std::uint32_t>(occurrences_.size()));
  return {rows_, starts_, occurrences_, sources_, strides_, scale};
}

}  // namespace troupe
