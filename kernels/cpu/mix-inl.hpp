// The hash of random_bits.hpp, vectorized.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_MIX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_MIX_INL_HPP
#undef TROUPE_KERNELS_CPU_MIX_INL_HPP
#else
#define TROUPE_KERNELS_CPU_MIX_INL_HPP
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/random_bits.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The lower half of x * factor: without AVX-512 there is no instruction for it.
template <class D>
HWY_INLINE hn::Vec<D> times(D d, hn::Vec<D> x, std::uint64_t factor) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, hn::GetLane(x) * factor);
#else
  const hn::Repartition<std::uint32_t, D> halves;
  const auto product = [&](hn::Vec<D> a, std::uint64_t b)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, hn::Set(d, b))); };
  const auto crossed = hn::Add(product(hn::ShiftRight<32>(x), factor), product(x, factor >> 32));
  return hn::Add(product(x, factor), hn::ShiftLeft<32>(crossed));
#endif
}

/// `mix(z)`.
template <class D>
HWY_INLINE hn::Vec<D> mixed(D d, hn::Vec<D> z) {
  z = times(d, hn::Xor(z, hn::ShiftRight<30>(z)), splitmix::first_factor);
  z = times(d, hn::Xor(z, hn::ShiftRight<27>(z)), splitmix::second_factor);
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
