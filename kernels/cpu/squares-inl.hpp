// The sum of squares in double, for code that Highway compiles once per instruction set.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_SQUARES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_SQUARES_INL_HPP
#undef TROUPE_KERNELS_CPU_SQUARES_INL_HPP
#else
#define TROUPE_KERNELS_CPU_SQUARES_INL_HPP
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The sum of squares in the order of `stream::squared_norm`.
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
