// Vectorized elementwise kernels, sums over ranks, and conversion of stored rows (rows.hpp).

#include "kernels/cpu/cpu_stream.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"
#include "kernels/cpu/row_numbers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

void relu(std::size_t count, const float* x, float* y) {
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    // A comparison, because Max treats NaN differently on different instruction sets.
    const auto value = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value), d, y + i);
  });
}

void relu_gradient(std::size_t count, const float* y, const float* grad_y, float* grad_x) {
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto active = hn::Gt(hn::LoadU(d, y + i), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(active, hn::LoadU(d, grad_y + i)), d, grad_x + i);
  });
}

void multiply_add_all(std::size_t count, const float* a, const float* b, const float* c, float* y) {
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto added = c != nullptr ? hn::LoadU(d, c + i) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), added), d, y + i);
  });
}

template <class D, std::size_t Vectors>
HWY_INLINE void sum_block(D d, vectors<Vectors>, std::span<const float* const> in, std::size_t at, float scale,
                          float* out) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[Vectors];
  for (std::size_t v = 0; v < Vectors; ++v) sum[v] = hn::LoadU(d, in[0] + at + v * lanes);
  for (std::size_t rank = 1; rank < in.size(); ++rank)
    for (std::size_t v = 0; v < Vectors; ++v) sum[v] = hn::Add(sum[v], hn::LoadU(d, in[rank] + at + v * lanes));
  for (std::size_t v = 0; v < Vectors; ++v) hn::StoreU(hn::Mul(hn::Set(d, scale), sum[v]), d, out + at + v * lanes);
}

void rank_sum(std::span<const float* const> in, std::size_t count, float scale, float* out) {
  for_each_block<8>(count, [&](auto d, auto vector_count, std::size_t at)
                               HWY_ATTR { sum_block(d, vector_count, in, at, scale, out); });
}

/// Returns whether x[0 .. count) has a NaN or Inf: 0*x is NaN for exactly these, and NaN survives addition.
bool any_non_finite(std::size_t count, const float* x) {
  bool found = false;
  for_each_block<8>(count, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    auto probe = hn::Zero(d);
    for (std::size_t v = 0; v < vector_count; ++v)
      probe = hn::MulAdd(hn::Zero(d), hn::LoadU(d, x + at + v * hn::Lanes(d)), probe);
    found |= !hn::AllFalse(d, hn::IsNaN(probe));
  });
  return found;
}

double squares(std::size_t count, const float* x) { return sum_of_squares(count, x); }

void decode_all(const_table_view table, std::size_t count, float* out) {
  with_numbers(table, [&](const auto* from) HWY_ATTR {
    for_each_block<1>(
        count, [&](auto d, auto, std::size_t at) HWY_ATTR { hn::StoreU(load_numbers(d, from + at), d, out + at); });
  });
}

void encode_all(std::size_t count, const float* x, table_view table) {
  with_numbers(table, [&](auto* to) HWY_ATTR {
    for_each_block<1>(count,
                      [&](auto d, auto, std::size_t at) HWY_ATTR { store_numbers(hn::LoadU(d, x + at), d, to + at); });
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(relu);
HWY_EXPORT(relu_gradient);
HWY_EXPORT(multiply_add_all);
HWY_EXPORT(rank_sum);
HWY_EXPORT(any_non_finite);
HWY_EXPORT(squares);
HWY_EXPORT(decode_all);
HWY_EXPORT(encode_all);

void cpu_stream::relu_forward(std::size_t count, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(relu)(count, x, y); }

void cpu_stream::relu_backward(std::size_t count, const float* y, const float* grad_y, float* grad_x) {
  HWY_DYNAMIC_DISPATCH(relu_gradient)(count, y, grad_y, grad_x);
}

void cpu_stream::multiply_add(std::size_t count, const float* a, const float* b, const float* c, float* y) {
  HWY_DYNAMIC_DISPATCH(multiply_add_all)(count, a, b, c, y);
}

void cpu_stream::sum_in_rank_order(std::span<const float* const> in, std::size_t count, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(rank_sum)(in, count, scale, out);
}

void cpu_stream::squared_norm(std::size_t count, const float* x, double* result) {
  *result = HWY_DYNAMIC_DISPATCH(squares)(count, x);
}

void cpu_stream::find_non_finite(std::size_t count, const float* x, non_finite* result) {
  // Chunks are small, so that scanning the faulty one again is cheap.
  constexpr std::size_t chunk = 4096;
  *result = {count, 0};
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    const std::size_t end = std::min(begin + chunk, count);
    if (!HWY_DYNAMIC_DISPATCH(any_non_finite)(end - begin, x + begin)) continue;
    const float* const found = std::find_if(x + begin, x + end, [](float v) { return !std::isfinite(v); });
    *result = {static_cast<std::uint64_t>(found - x), *found};
    return;
  }
}

void cpu_stream::copy_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) {
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(from.data + r * from.stride, cols, to.data + r * to.stride);
}

void cpu_stream::add_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) to.data[r * to.stride + c] += from.data[r * from.stride + c];
}

void cpu_stream::fill(std::size_t count, float value, float* x) { std::fill_n(x, count, value); }

void cpu_stream::multiply(std::size_t count, float factor, float* x) {
  for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
}

void decode(const_table_view from, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_all)(from, count, out);
}

void encode(std::size_t count, const float* x, table_view to) { HWY_DYNAMIC_DISPATCH(encode_all)(count, x, to); }

}  // namespace troupe::kernels
#endif  // HWY_ONCE
