// Embedding bag, backward: adds each bag's gradient to the gradient rows of its indices.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/prefetch.hpp"
#include "kernels/embedding_bag.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding_bag_backward.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// Adds a bag's gradient to its rows, for one block of columns: the operation that `update_rows` repeats bit for bit.
/// `grad` and `row_grads` begin at the block.
template <class D, std::size_t kVectors>
HWY_INLINE void add_block(D d, vectors<kVectors>, std::size_t dim, const bags_view& bags, std::size_t bag, float scale,
                          const float* grad, float* row_grads) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> from[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) from[v] = hn::LoadU(d, grad + v * lanes);
  for (std::size_t i = bags.begin_of(bag), end = bags.end_of(bag); i < end; ++i) {
    const auto factor = hn::Set(d, bags.weights.empty() ? scale : bags.weights[i]);
    float* const to = row_grads + static_cast<std::size_t>(bags.indices[i]) * dim;
    for (std::size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(hn::MulAdd(factor, from[v], hn::LoadU(d, to + v * lanes)), d, to + v * lanes);
    }
  }
}

void add_bags(pooling mode, std::size_t dim, const bags_view& bags, const float* grad, std::size_t grad_stride,
              float* row_grads) {
  const prefetch_plan plan(dim * sizeof(float));
  std::size_t prefetched = 0;
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    const std::size_t length = bags.end_of(bag) - bags.begin_of(bag);
    const std::size_t ahead = std::min(bags.end_of(bag) + plan.rows_ahead, bags.indices.size());
    for (; prefetched < ahead; ++prefetched) {
      prefetch_row(row_grads + static_cast<std::size_t>(bags.indices[prefetched]) * dim, plan.bytes);
    }
    const float scale = mode == pooling::mean ? 1.0F / static_cast<float>(length) : 1.0F;
    const float* const bag_grad = grad + bag * grad_stride;
    for_each_block<8>(dim, [&](auto d, auto count, std::size_t column) HWY_ATTR {
      add_block(d, count, dim, bags, bag, scale, bag_grad + column, row_grads + column);
    });
  }
}

/// Adds, for the columns of one vector, the bag's gradient to the first maximal entry of each column.
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
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    row_grads[row_of(static_cast<std::size_t>(winners[lane])) + lane] += grad[column + lane];
  }
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
  if (mode == pooling::max) {
    route_bags(table, dim, bags, grad, grad_stride, row_grads);
  } else {
    add_bags(mode, dim, bags, grad, grad_stride, row_grads);
  }
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(backward);

void embedding_bag_backward(pooling mode, const float* table, std::size_t dim, const bags_view& bags, const float* grad,
                            std::size_t grad_stride, float* row_grads) {
  HWY_DYNAMIC_DISPATCH(backward)(mode, table, dim, bags, grad, grad_stride, row_grads);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
