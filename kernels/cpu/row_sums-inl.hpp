// The gradient of one row of a table: its occurrences summed rank by rank, as optimizer.hpp says. For code that Highway
// compiles once per instruction set.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_ROW_SUMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ROW_SUMS_INL_HPP
#undef TROUPE_KERNELS_CPU_ROW_SUMS_INL_HPP
#else
#define TROUPE_KERNELS_CPU_ROW_SUMS_INL_HPP
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"
#include "kernels/optimizer.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The part of the sorted occurrences that belongs to one row.
struct run {
  const occurrence* begin;
  const occurrence* end;
};

HWY_INLINE run run_of(const row_gradients& gradients, std::size_t i) {
  const occurrence* const all = gradients.occurrences.data();
  return {all + gradients.starts[i], all + gradients.starts[i + 1]};
}

/// One block of columns of a row's gradient. Returns false if one of them is NaN or Inf.
template <class D, std::size_t kVectors>
HWY_INLINE bool sum_block(D d, const row_gradients& gradients, run row, std::size_t column,
                          hn::Vec<D> (&grad)[kVectors]) {
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t v = 0; v < kVectors; ++v) grad[v] = hn::Zero(d);
  for (const occurrence* o = row.begin; o != row.end;) {
    const std::uint32_t rank = o->rank;
    const float* const source = gradients.sources[rank] + column;
    const std::size_t stride = gradients.source_strides[rank];
    hn::Vec<D> part[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) part[v] = hn::Zero(d);
    for (; o != row.end && o->rank == rank; ++o) {
      const float* const from = source + o->row * stride;
      for (std::size_t v = 0; v < kVectors; ++v) {
        part[v] = hn::MulAdd(hn::Set(d, o->scale), hn::LoadU(d, from + v * lanes), part[v]);
      }
    }
    for (std::size_t v = 0; v < kVectors; ++v) grad[v] = hn::Add(grad[v], part[v]);
  }
  auto probe = hn::Zero(d);
  for (std::size_t v = 0; v < kVectors; ++v) {
    grad[v] = hn::Mul(hn::Set(d, gradients.scale), grad[v]);
    probe = hn::MulAdd(hn::Zero(d), grad[v], probe);  // 0*x is NaN for NaN and Inf
  }
  return hn::AllFalse(d, hn::IsNaN(probe));
}

/// Columns [column, column + count) of a row's gradient. Returns false if one of them is NaN or Inf.
/// Not inlined: it is long, and every optimizer and type of row would have its own.
inline HWY_NOINLINE bool sum_columns(const row_gradients& gradients, run row, std::size_t column, std::size_t count,
                                     float* out) {
  bool finite = true;
  for_each_block<8>(count, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    hn::Vec<decltype(d)> grad[vector_count];
    finite &= sum_block(d, gradients, row, column + at, grad);
    for (std::size_t v = 0; v < vector_count; ++v) hn::StoreU(grad[v], d, out + at + v * hn::Lanes(d));
  });
  return finite;
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
