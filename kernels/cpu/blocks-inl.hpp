// Splits an array into blocks of whole vectors, and sums its squares, for code that Highway compiles once per
// instruction set.
//
// The widest blocks come first; the rest is processed in ever narrower vectors, down to one lane. No lane beyond the
// array is loaded or stored, and every element has the same operations in any block. Not for instruction sets whose
// vector length is unknown at compile time.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_BLOCKS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_BLOCKS_INL_HPP
#undef TROUPE_KERNELS_CPU_BLOCKS_INL_HPP
#else
#define TROUPE_KERNELS_CPU_BLOCKS_INL_HPP
#endif

#include <cstddef>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

static_assert(!HWY_HAVE_SCALABLE, "blocks are arrays of vectors, whose size must be known when compiling");

/// The number of vectors of a block, as a type.
template <std::size_t Count>
using vectors = std::integral_constant<std::size_t, Count>;

inline constexpr std::size_t full_lanes = HWY_LANES(float);

template <std::size_t Lanes, class Body>
HWY_INLINE void for_each_narrow_block(std::size_t count, std::size_t at, const Body& body) {
  if constexpr (Lanes > 0) {
    if (count - at >= Lanes) {
      body(hn::CappedTag<float, Lanes>(), vectors<1>(), at);
      at += Lanes;
    }
    for_each_narrow_block<Lanes / 2>(count, at, body);
  }
}

template <std::size_t Vectors, class Body>
HWY_INLINE void for_each_wide_block(std::size_t count, std::size_t at, const Body& body) {
  if constexpr (Vectors > 0) {
    if (count - at >= Vectors * full_lanes) {
      body(hn::CappedTag<float, full_lanes>(), vectors<Vectors>(), at);
      at += Vectors * full_lanes;
    }
    for_each_wide_block<Vectors / 2>(count, at, body);
  } else {
    for_each_narrow_block<full_lanes / 2>(count, at, body);
  }
}

/// Calls `body(tag, vectors<n>(), at)` for consecutive blocks of n vectors that cover [0, count). n <= MaxVectors, a
/// power of two.
template <std::size_t MaxVectors, class Body>
HWY_INLINE void for_each_block(std::size_t count, const Body& body) {
  constexpr std::size_t widest = MaxVectors * full_lanes;
  std::size_t at = 0;
  for (; count - at >= widest; at += widest) body(hn::CappedTag<float, full_lanes>(), vectors<MaxVectors>(), at);
  for_each_wide_block<MaxVectors / 2>(count, at, body);
}

/// Calls `body(tag, at)` for consecutive vectors that cover [0, count), in blocks of four.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t count, const Body& body) {
  for_each_block<4>(count, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    for (std::size_t v = 0; v < vector_count; ++v) body(d, at + v * hn::Lanes(d));
  });
}

/// Returns the sum of squares, in the order of `stream::squared_norm`.
HWY_INLINE double sum_of_squares(std::size_t count, const float* x) {
  constexpr std::size_t sums = 8;
  const hn::CappedTag<double, sums> d;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  hn::Vec<decltype(d)> sum[sums / lanes];
  for (auto& s : sum) s = hn::Zero(d);
  std::size_t at = 0;
  for (; count - at >= sums; at += sums) {
    for (std::size_t v = 0; v < sums / lanes; ++v) {
      const auto wide = hn::PromoteTo(d, hn::LoadU(narrow, x + at + v * lanes));
      sum[v] = hn::MulAdd(wide, wide, sum[v]);  // the product is exact in double, fused or not
    }
  }
  double s[sums];
  for (std::size_t v = 0; v < sums / lanes; ++v) hn::StoreU(sum[v], d, s + v * lanes);
  for (std::size_t j = 0; at < count; ++at, ++j) s[j] += static_cast<double>(x[at]) * static_cast<double>(x[at]);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
