// Embedding bag. Forward: sums rows in registers, a block of columns at a time, and prefetches the next rows. Backward:
// adds each bag's gradient to the gradient rows of its indices.

#include "kernels/embedding_bag.hpp"

#include <algorithm>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/prefetch.hpp"
#include "kernels/idle_threads.hpp"

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

/// The rows that a batch reads, in order, with prefetching; shared by its bags.
template <class Number>
struct row_sequence {
  const Number* table;
  std::size_t dim;
  std::span<const std::int64_t> indices;
  prefetch_plan plan;

  /// `first`: the index of the first row to read.
  row_sequence(const Number* rows, std::size_t columns, std::span<const std::int64_t> wanted, std::size_t first)
      : table(rows), dim(columns), indices(wanted), plan(columns * sizeof(Number)) {
    for (std::size_t i = first; i < std::min(first + plan.rows_ahead, indices.size()); ++i)
      prefetch_row(row(i), plan.bytes);
  }

  const Number* row(std::size_t i) const { return table + static_cast<std::size_t>(indices[i]) * dim; }

  void prefetch_after(std::size_t i) const {
    if (i + plan.rows_ahead < indices.size()) prefetch_row(row(i + plan.rows_ahead), plan.bytes);
  }
};

/// One bag: its range in the sequence, the weights of the whole sequence (or null) and the divisor of the sum.
struct bag_range {
  std::size_t begin;
  std::size_t end;
  const float* weights;
  float divisor;
};

template <pool Pool, class D, std::size_t Vectors, class Number>
HWY_INLINE void pool_block(D d, vectors<Vectors>, const row_sequence<Number>& rows, const bag_range& bag,
                           std::size_t column, float* out) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> acc[Vectors];
  std::size_t i = bag.begin;
  if constexpr (Pool == pool::maximum) {
    const Number* const first = rows.row(i) + column;
    for (std::size_t v = 0; v < Vectors; ++v) acc[v] = load_numbers(d, first + v * lanes);
  } else {
    for (std::size_t v = 0; v < Vectors; ++v) acc[v] = hn::Zero(d);
  }
  for (; i < bag.end; ++i) {
    if (column == 0) rows.prefetch_after(i);
    const Number* const row = rows.row(i) + column;
    for (std::size_t v = 0; v < Vectors; ++v) {
      const hn::Vec<D> x = load_numbers(d, row + v * lanes);
      if constexpr (Pool == pool::plain_sum)
        acc[v] = hn::Add(acc[v], x);
      else if constexpr (Pool == pool::weighted_sum)
        acc[v] = hn::MulAdd(hn::Set(d, bag.weights[i]), x, acc[v]);
      else
        acc[v] = hn::IfThenElse(hn::Gt(x, acc[v]), x, acc[v]);
    }
  }
  for (std::size_t v = 0; v < Vectors; ++v) {
    if (bag.divisor != 1.0F) acc[v] = hn::Div(acc[v], hn::Set(d, bag.divisor));
    hn::StoreU(acc[v], d, out + column + v * lanes);
  }
}

/// Pools bags [first, last).
template <pool Pool, class Number>
void pool_bags(const Number* table, std::size_t dim, const bags_view& bags, std::size_t first, std::size_t last,
               bool mean, float* out, std::size_t out_stride) {
  if (first == last) return;
  const row_sequence<Number> rows(table, dim, bags.indices, bags.begin_of(first));
  for (std::size_t b = first; b < last; ++b) {
    bag_range bag{bags.begin_of(b), bags.end_of(b), bags.weights.data(), 1.0F};
    float* const out_row = out + b * out_stride;
    if (bag.begin == bag.end) {
      std::fill_n(out_row, dim, 0.0F);
      continue;
    }
    if (mean) bag.divisor = static_cast<float>(bag.end - bag.begin);
    for_each_block<8>(dim, [&](auto d, auto count, std::size_t column)
                               HWY_ATTR { pool_block<Pool>(d, count, rows, bag, column, out_row); });
  }
}

/// Pools bags [first, last).
void forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags, std::size_t first,
             std::size_t last, float* out, std::size_t out_stride) {
  with_numbers(table, [&](const auto* numbers) HWY_ATTR {
    if (mode == pooling::max)
      pool_bags<pool::maximum>(numbers, dim, bags, first, last, false, out, out_stride);
    else if (bags.weights.empty())
      pool_bags<pool::plain_sum>(numbers, dim, bags, first, last, mode == pooling::mean, out, out_stride);
    else
      pool_bags<pool::weighted_sum>(numbers, dim, bags, first, last, false, out, out_stride);
  });
}

/// Gathers rows [first, last).
void gather(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices, std::size_t first,
            std::size_t last, float* out) {
  with_numbers(table, [&](const auto* numbers) HWY_ATTR {
    const row_sequence rows(numbers, dim, indices, first);
    for (std::size_t i = first; i < last; ++i) {
      rows.prefetch_after(i);
      const auto* const from = rows.row(i);
      float* const to = out + i * dim;
      for_each_vector(dim,
                      [&](auto d, std::size_t at) HWY_ATTR { hn::StoreU(load_numbers(d, from + at), d, to + at); });
    }
  });
}

// -- backward ---------------------------------------------------------------------------------------------------------

/// Adds a bag's gradient to its rows, for one block of columns. `update_rows` repeats this operation bit for bit.
/// `grad` and `row_grads` point to the block.
template <class D, std::size_t Vectors>
HWY_INLINE void add_block(D d, vectors<Vectors>, std::size_t dim, const bags_view& bags, std::size_t bag, float scale,
                          const float* grad, float* row_grads) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> from[Vectors];
  for (std::size_t v = 0; v < Vectors; ++v) from[v] = hn::LoadU(d, grad + v * lanes);
  for (std::size_t i = bags.begin_of(bag), end = bags.end_of(bag); i < end; ++i) {
    const auto factor = hn::Set(d, bags.weights.empty() ? scale : bags.weights[i]);
    float* const to = row_grads + static_cast<std::size_t>(bags.indices[i]) * dim;
    for (std::size_t v = 0; v < Vectors; ++v)
      hn::StoreU(hn::MulAdd(factor, from[v], hn::LoadU(d, to + v * lanes)), d, to + v * lanes);
  }
}

void add_bags(pooling mode, std::size_t dim, const bags_view& bags, const float* grad, std::size_t grad_stride,
              float* row_grads) {
  const prefetch_plan plan(dim * sizeof(float));
  std::size_t prefetched = 0;
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    const std::size_t length = bags.end_of(bag) - bags.begin_of(bag);
    const std::size_t ahead = std::min(bags.end_of(bag) + plan.rows_ahead, bags.indices.size());
    for (; prefetched < ahead; ++prefetched)
      prefetch_row(row_grads + static_cast<std::size_t>(bags.indices[prefetched]) * dim, plan.bytes);
    const float scale = mode == pooling::mean ? 1.0F / static_cast<float>(length) : 1.0F;
    const float* const bag_grad = grad + bag * grad_stride;
    for_each_block<8>(dim, [&](auto d, auto count, std::size_t column) HWY_ATTR {
      add_block(d, count, dim, bags, bag, scale, bag_grad + column, row_grads + column);
    });
  }
}

/// Adds the bag's gradient to the first maximal entry of each column, for the columns of one vector.
template <class D>
HWY_INLINE void route_maximum(D d, const float* table, std::size_t dim, const std::int64_t* indices, std::size_t length,
                              std::size_t column, const float* grad, float* row_grads) {
  const hn::RebindToSigned<D> di;
  const auto row_of = [&](std::size_t i) { return static_cast<std::size_t>(indices[i]) * dim + column; };
  auto maximum = hn::LoadU(d, table + row_of(0));
  auto winner = hn::Zero(di);
  for (std::size_t i = 1; i < length; ++i) {
    const auto x = hn::LoadU(d, table + row_of(i));
    const auto larger = hn::Gt(x, maximum);
    maximum = hn::IfThenElse(larger, x, maximum);
    winner = hn::IfThenElse(hn::RebindMask(di, larger), hn::Set(di, static_cast<std::int32_t>(i)), winner);
  }
  HWY_ALIGN std::int32_t winners[full_lanes];
  hn::StoreU(winner, di, winners);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane)
    row_grads[row_of(static_cast<std::size_t>(winners[lane])) + lane] += grad[column + lane];
}

void route_bags(const float* table, std::size_t dim, const bags_view& bags, const float* grad, std::size_t grad_stride,
                float* row_grads) {
  for (std::size_t b = 0; b < bags.size(); ++b) {
    const std::size_t begin = bags.begin_of(b);
    const std::size_t length = bags.end_of(b) - begin;
    if (length == 0) continue;
    const std::int64_t* const indices = bags.indices.data() + begin;
    for_each_block<1>(dim, [&](auto d, auto, std::size_t column) HWY_ATTR {
      route_maximum(d, table, dim, indices, length, column, grad + b * grad_stride, row_grads);
    });
  }
}

void backward(pooling mode, const float* table, std::size_t dim, const bags_view& bags, const float* grad,
              std::size_t grad_stride, float* row_grads) {
  if (mode == pooling::max)
    route_bags(table, dim, bags, grad, grad_stride, row_grads);
  else
    add_bags(mode, dim, bags, grad, grad_stride, row_grads);
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(forward);
HWY_EXPORT(gather);
HWY_EXPORT(backward);

void cpu_stream::embedding_bag_forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags,
                                       float* out, std::size_t out_stride) {
  in_ranges(bags.size(), bags.indices.size() * dim * size_of(table.type), [&](std::size_t first, std::size_t last) {
    HWY_DYNAMIC_DISPATCH(forward)(mode, table, dim, bags, first, last, out, out_stride);
  });
}

void cpu_stream::gather_rows(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices,
                             float* out) {
  in_ranges(indices.size(), 2 * indices.size() * dim * size_of(table.type), [&](std::size_t first, std::size_t last) {
    HWY_DYNAMIC_DISPATCH(gather)(table, dim, indices, first, last, out);
  });
}

void cpu_stream::embedding_bags_forward(std::size_t dim, row_dtype type, std::span<const bag_pass> passes) {
  for (const bag_pass& one : passes) {
    if (one.bags.offsets.empty())
      gather_rows({one.table, type}, dim, one.bags.indices, one.out);
    else
      embedding_bag_forward(one.mode, {one.table, type}, dim, one.bags, one.out, one.out_stride);
  }
}

void embedding_bag_backward(pooling mode, const float* table, std::size_t dim, const bags_view& bags, const float* grad,
                            std::size_t grad_stride, float* row_grads) {
  HWY_DYNAMIC_DISPATCH(backward)(mode, table, dim, bags, grad, grad_stride, row_grads);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
