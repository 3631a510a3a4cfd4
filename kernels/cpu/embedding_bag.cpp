// Embedding bag, forward: pooled rows are summed in registers, a block of columns at a time, while the rows that
// come next are prefetched.

#include "kernels/embedding_bag.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/prefetch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding_bag.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"
#include "kernels/cpu/row_numbers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

enum class pool { plain_sum, weighted_sum, maximum };

/// The rows that a batch asks for, in order; shared by its bags.
template <class Number>
struct row_sequence {
  const Number* table;
  std::size_t dim;
  std::span<const std::int64_t> indices;
  prefetch_plan plan;

  row_sequence(const Number* rows, std::size_t columns, std::span<const std::int64_t> wanted)
      : table(rows), dim(columns), indices(wanted), plan(columns * sizeof(Number)) {
    for (std::size_t i = 0; i < std::min(plan.rows_ahead, indices.size()); ++i) prefetch_row(row(i), plan.bytes);
  }

  const Number* row(std::size_t i) const { return table + static_cast<std::size_t>(indices[i]) * dim; }

  void prefetch_after(std::size_t i) const {
    if (i + plan.rows_ahead < indices.size()) prefetch_row(row(i + plan.rows_ahead), plan.bytes);
  }
};

/// One bag: positions in the sequence, the weights of all positions (or null) and the divisor of the sum.
struct bag_range {
  std::size_t begin;
  std::size_t end;
  const float* weights;
  float divisor;
};

template <pool kPool, class D, std::size_t kVectors, class Number>
HWY_INLINE void pool_block(D d, vectors<kVectors>, const row_sequence<Number>& rows, const bag_range& bag,
                           std::size_t column, float* out) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> acc[kVectors];
  std::size_t i = bag.begin;
  if constexpr (kPool == pool::maximum) {
    const Number* const first = rows.row(i) + column;
    for (std::size_t v = 0; v < kVectors; ++v) acc[v] = load_numbers(d, first + v * lanes);
  } else {
    for (std::size_t v = 0; v < kVectors; ++v) acc[v] = hn::Zero(d);
  }
  for (; i < bag.end; ++i) {
    if (column == 0) rows.prefetch_after(i);
    const Number* const row = rows.row(i) + column;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const hn::Vec<D> x = load_numbers(d, row + v * lanes);
      if constexpr (kPool == pool::plain_sum) {
        acc[v] = hn::Add(acc[v], x);
      } else if constexpr (kPool == pool::weighted_sum) {
        acc[v] = hn::MulAdd(hn::Set(d, bag.weights[i]), x, acc[v]);
      } else {
        acc[v] = hn::IfThenElse(hn::Gt(x, acc[v]), x, acc[v]);
      }
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    if (bag.divisor != 1.0F) acc[v] = hn::Div(acc[v], hn::Set(d, bag.divisor));
    hn::StoreU(acc[v], d, out + column + v * lanes);
  }
}

template <pool kPool, class Number>
void pool_bags(const Number* table, std::size_t dim, const bags_view& bags, bool mean, float* out,
               std::size_t out_stride) {
  const row_sequence<Number> rows(table, dim, bags.indices);
  for (std::size_t b = 0; b < bags.size(); ++b) {
    bag_range bag{bags.begin_of(b), bags.end_of(b), bags.weights.data(), 1.0F};
    float* const out_row = out + b * out_stride;
    if (bag.begin == bag.end) {
      std::fill_n(out_row, dim, 0.0F);
      continue;
    }
    if (mean) bag.divisor = static_cast<float>(bag.end - bag.begin);
    for_each_block<8>(dim, [&](auto d, auto count, std::size_t column)
                               HWY_ATTR { pool_block<kPool>(d, count, rows, bag, column, out_row); });
  }
}

void forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags, float* out,
             std::size_t out_stride) {
  with_numbers(table, [&](const auto* numbers) HWY_ATTR {
    if (mode == pooling::max) {
      pool_bags<pool::maximum>(numbers, dim, bags, false, out, out_stride);
    } else if (bags.weights.empty()) {
      pool_bags<pool::plain_sum>(numbers, dim, bags, mode == pooling::mean, out, out_stride);
    } else {
      pool_bags<pool::weighted_sum>(numbers, dim, bags, false, out, out_stride);
    }
  });
}

void gather(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices, float* out) {
  with_numbers(table, [&](const auto* numbers) HWY_ATTR {
    const row_sequence rows(numbers, dim, indices);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      rows.prefetch_after(i);
      const auto* const from = rows.row(i);
      float* const to = out + i * dim;
      for_each_block<4>(dim, [&](auto d, auto count, std::size_t column) HWY_ATTR {
        for (std::size_t v = 0; v < count; ++v) {
          const std::size_t at = column + v * hn::Lanes(d);
          hn::StoreU(load_numbers(d, from + at), d, to + at);
        }
      });
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(forward);
HWY_EXPORT(gather);

void cpu_stream::embedding_bag_forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags,
                                       float* out, std::size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(forward)(mode, table, dim, bags, out, out_stride);
}

void cpu_stream::gather_rows(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices,
                             float* out) {
  HWY_DYNAMIC_DISPATCH(gather)(table, dim, indices, out);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
