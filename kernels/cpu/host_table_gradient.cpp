#include "kernels/cpu/host_table_gradient.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "kernels/cpu/prefetch.hpp"

namespace troupe::kernels {

namespace {

/// The next output index for each value of a digit of the row. Requires: at most `digit_bits_max` bits.
class digit_places {
 public:
  static constexpr int digit_bits_max = 11;

  digit_places(int shift, int bits) : shift_(shift), mask_((std::uint64_t{1} << bits) - 1) {
    std::fill_n(begins_.begin(), mask_ + 2, 0U);
  }
  void count(std::uint64_t row) { ++begins_[digit(row) + 1]; }
  /// Requires: all rows are counted.
  void begin() { std::partial_sum(begins_.begin(), begins_.begin() + mask_ + 2, begins_.begin()); }
  std::uint32_t take(std::uint64_t row) { return begins_[digit(row)]++; }

 private:
  std::size_t digit(std::uint64_t row) const { return (row >> shift_) & mask_; }

  int shift_;
  std::uint64_t mask_;
  std::array<std::uint32_t, (std::size_t{1} << digit_bits_max) + 1> begins_;  // for values 0 .. mask + 1
};

/// Calls `use(index, number)` for each index of the bags in order, with the number of its occurrence.
template <class Use>
void for_each_index(const bags_view& bags, std::uint32_t first, const Use& use) {
  if (bags.offsets.empty() || !bags.weights.empty()) {
    for (const std::int64_t index : bags.indices) use(index, first++);
    return;
  }
  for (std::size_t bag = 0; bag < bags.size(); ++bag, ++first)
    for (std::size_t i = bags.begin_of(bag), end = bags.end_of(bag); i < end; ++i) use(bags.indices[i], first);
}

}  // namespace

void host_table_gradient::clear(std::int64_t row_count) {
  row_count_ = row_count;
  bags_.clear();
  index_count_ = 0;
  added_.clear();
  sources_.clear();
  strides_.clear();
}

void host_table_gradient::add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) {
  const auto source = static_cast<std::uint32_t>(sources_.size());
  sources_.push_back(grad);
  strides_.push_back(grad_stride);
  bags_.push_back({bags, static_cast<std::uint32_t>(added_.size())});
  index_count_ += bags.indices.size();
  const auto add_one = [&](std::size_t row, float scale) {
    added_.push_back({source, static_cast<std::uint32_t>(row), scale});
  };
  if (bags.offsets.empty())
    for (std::size_t i = 0; i < bags.indices.size(); ++i) add_one(i, 1);
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    const std::size_t begin = bags.begin_of(bag);
    const std::size_t end = bags.end_of(bag);
    if (bags.weights.empty())
      add_one(bag, mode == pooling::mean && end > begin ? 1.0F / static_cast<float>(end - begin) : 1.0F);
    else
      for (std::size_t i = begin; i < end; ++i) add_one(bag, bags.weights[i]);
  }
}

/// Sorts words by index: an index above its occurrence's number, of `number_bits`. A stable radix sort. The number of
/// passes depends on the table's height: one for 2048 rows, two for four million.
template <class Word>
void host_table_gradient::sort_by_row(int row_bits, int number_bits, sort_words<Word>& words) const {
  words.sorted.resize(std::max(words.sorted.size(), index_count_));
  words.unsorted.resize(std::max(words.unsorted.size(), index_count_));
  const int passes = std::max((row_bits + digit_places::digit_bits_max - 1) / digit_places::digit_bits_max, 1);
  int shift = row_bits / passes;
  digit_places first(0, shift);
  for (const numbered_bags& one : bags_)
    for (const std::int64_t index : one.bags.indices) first.count(static_cast<std::uint64_t>(index));
  first.begin();
  Word* const to = words.sorted.data();
  // Words are written in an order that the processor cannot predict.
  constexpr std::size_t prefetch_max = std::size_t{512} << 10;
  const std::size_t prefetched = std::min(index_count_ * sizeof(Word), prefetch_max);
  prefetch_row(to, prefetched);
  for (const numbered_bags& one : bags_)
    for_each_index(one.bags, one.first_number, [&](std::int64_t index, std::uint32_t number) {
      const auto row = static_cast<std::uint64_t>(index);
      to[first.take(row)] = static_cast<Word>(row << number_bits | number);
    });
  for (int pass = 1; pass < passes; ++pass) {
    const int bits = (row_bits - shift) / (passes - pass);
    digit_places next(number_bits + shift, bits);
    words.sorted.swap(words.unsorted);
    const std::span<const Word> from(words.unsorted.data(), index_count_);
    for (const Word word : from) next.count(word);
    next.begin();
    prefetch_row(words.sorted.data(), prefetched);
    for (const Word word : from) words.sorted[next.take(word)] = word;
    shift += bits;
  }
}

template <class Word>
row_gradients host_table_gradient::group_sorted(const Word* sorted, int number_bits, group_memory& to) const {
  // Sized for as many rows as indices, which changes little from step to step.
  to.rows.resize(std::max(to.rows.size(), index_count_));
  to.starts.resize(std::max(to.starts.size(), index_count_ + 1));
  to.occurrences.resize(std::max(to.occurrences.size(), index_count_));
  const Word number_mask = static_cast<Word>((std::uint64_t{1} << number_bits) - 1);
  // Branchless: the number of a row's indices is unpredictable.
  std::size_t rows = 0;
  std::int64_t last = -1;
  to.starts[0] = 0;
  for (std::size_t i = 0; i < index_count_; ++i) {
    const auto row = static_cast<std::int64_t>(std::uint64_t{sorted[i]} >> number_bits);
    to.occurrences[i] = added_[sorted[i] & number_mask];
    rows += row != last ? 1 : 0;
    to.rows[rows - 1] = last = row;
    to.starts[rows] = static_cast<std::uint32_t>(i + 1);
  }
  return {{to.rows.data(), rows},
          {to.starts.data(), rows + 1},
          {to.occurrences.data(), index_count_},
          sources_,
          strides_,
          1.0F};
}

row_gradients host_table_gradient::group(sort_memory& memory, group_memory& to) const {
  const int number_bits = std::bit_width(std::max<std::size_t>(added_.size(), 1) - 1);
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(row_count_ - 1, 0)));
  const auto group_by = [&](auto& words) {
    sort_by_row(row_bits, number_bits, words);
    return group_sorted(words.sorted.data(), number_bits, to);
  };
  if (row_bits + number_bits > 64) throw std::length_error("too many indices in a step for a table of so many rows");
  return row_bits + number_bits <= 32 ? group_by(memory.narrow) : group_by(memory.wide);
}

void host_table_gradients::clear() {
  count_ = 0;
  kept_.clear();
}

std::size_t host_table_gradients::add_table(std::int64_t row_count) {
  if (count_ == tables_.size()) tables_.emplace_back();
  tables_[count_].clear(row_count);
  return count_++;
}

void host_table_gradients::add(std::size_t table, pooling mode, const bags_view& bags, const float* grad,
                               std::size_t grad_stride) {
  tables_[table].add(mode, bags, grad, grad_stride);
}

std::span<const std::span<const double>> host_table_gradients::norms_by_table(std::size_t dim, float scale) {
  kept_memory_.resize(std::max(kept_memory_.size(), count_));
  while (kept_.size() < count_) kept_.push_back(tables_[kept_.size()].group(sort_memory_, kept_memory_[kept_.size()]));
  norms_.resize(std::max(norms_.size(), count_));
  norms_by_table_.clear();
  for (std::size_t i = 0; i < count_; ++i) {
    kept_[i].scale = scale;
    norms_[i].resize(kept_[i].rows.size());
    row_squared_norms(dim, kept_[i], norms_[i].data());
    norms_by_table_.emplace_back(norms_[i]);
  }
  return norms_by_table_;
}

void host_table_gradients::apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) {
  bad_row_ = -1;
  std::int64_t first_row = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const table_step& step = steps[i];
    if (step.weights != nullptr) {
      row_gradients grouped = i < kept_.size() ? kept_[i] : tables_[i].group(sort_memory_, group_memory_);
      grouped.scale = step.scale;
      std::int64_t bad_row = 0;
      const bool is_finite = update_rows(step.constants, tables_[i].row_count(), dim, {step.weights, type}, step.state,
                                         grouped, every_row, &bad_row);
      if (!is_finite && bad_row_ < 0) bad_row_ = first_row + bad_row;
    }
    first_row += tables_[i].row_count();
  }
}

}  // namespace troupe::kernels
