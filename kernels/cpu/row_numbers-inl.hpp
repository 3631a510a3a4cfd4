// Loads and stores vectors of float32 in each format of a table's rows, for code that Highway compiles once per
// instruction set. Rounding is explicit where Highway's own would truncate.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_ROW_NUMBERS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ROW_NUMBERS_INL_HPP
#undef TROUPE_KERNELS_CPU_ROW_NUMBERS_INL_HPP
#else
#define TROUPE_KERNELS_CPU_ROW_NUMBERS_INL_HPP
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/embedding_bag.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls `body` with a typed pointer to the numbers of a `table_view` or `const_table_view`: to float, hwy::float16_t
/// or hwy::bfloat16_t.
template <class View, class Body>
HWY_INLINE auto with_numbers(View table, const Body& body) {
  constexpr bool is_const = std::is_const_v<std::remove_pointer_t<decltype(table.data)>>;
  const auto as = [&]<class Number>(Number) {
    return static_cast<std::conditional_t<is_const, const Number*, Number*>>(table.data);
  };
  if (table.type == row_dtype::f16) return body(as(hwy::float16_t()));
  if (table.type == row_dtype::bf16) return body(as(hwy::bfloat16_t()));
  return body(as(float()));
}

// From AVX2 on, x86 has an instruction for it. Elsewhere Highway's f16 loses Inf and truncates.
#define TROUPE_HAS_F16C (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)

/// Shifts the bits of `half` left by 13 and multiplies by 2^112, which adjusts the exponent exactly, even for subnormal
/// numbers.
template <class D>
HWY_INLINE hn::Vec<D> half_to_float(D d, hn::Vec<hn::Rebind<std::uint16_t, D>> half) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fff)));
  const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112F));
  // The largest exponent means Inf or NaN.
  const auto is_special = hn::Ge(scaled, hn::Set(d, 0x1p16F));
  const auto special = hn::BitCast(d, hn::Or(magnitude, hn::Set(du, 0x7f800000)));
  return hn::Or(hn::IfThenElse(is_special, special, scaled), hn::BitCast(d, sign));
}

/// Rounds to nearest even. Below 2^-14, where halves are 2^-24 apart: adds 0.5, whose last bit is 2^-24. Above: adds to
/// the bits just less than half of the last kept bit, or exactly half if that bit is odd.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> float_to_half(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto magnitude = hn::Abs(x);
  const auto bits = hn::BitCast(du, magnitude);
  const auto sign = hn::ShiftRight<16>(hn::And(hn::BitCast(du, x), hn::Set(du, 0x80000000)));
  const auto is_odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1));
  const auto bias_change = hn::Set(du, (127 - 15) << 23);
  const auto rounded = hn::ShiftRight<13>(hn::Add(hn::Sub(bits, bias_change), hn::Add(hn::Set(du, 0xfff), is_odd)));
  const auto half = hn::Set(d, 0.5F);
  const auto subnormal = hn::Sub(hn::BitCast(du, hn::Add(magnitude, half)), hn::BitCast(du, half));
  auto result = hn::IfThenElse(hn::RebindMask(du, hn::Lt(magnitude, hn::Set(d, 0x1p-14F))), subnormal, rounded);
  const auto too_large = hn::RebindMask(du, hn::Ge(magnitude, hn::Set(d, 0x1p16F)));
  result = hn::IfThenElse(too_large, hn::Set(du, 0x7c00), result);
  result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), hn::Set(du, 0x7e00), result);
  return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(di, hn::Or(result, sign)));
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> float_to_bfloat(D, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, x);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(hn::Set(du, 0x7fff), is_odd)));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40));
  const auto result = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(di, result));
}

template <class D>
HWY_INLINE hn::Vec<D> load_numbers(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_numbers(D d, const hwy::float16_t* from) {
#if TROUPE_HAS_F16C
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
#else
  return half_to_float(d, hn::LoadU(hn::Rebind<std::uint16_t, D>(), reinterpret_cast<const std::uint16_t*>(from)));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load_numbers(D d, const hwy::bfloat16_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), from));
}

template <class D>
HWY_INLINE void store_numbers(hn::Vec<D> x, D d, float* to) {
  hn::StoreU(x, d, to);
}

template <class D>
HWY_INLINE void store_numbers(hn::Vec<D> x, [[maybe_unused]] D d, hwy::float16_t* to) {
#if TROUPE_HAS_F16C
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, x), dh, to);
#else
  hn::StoreU(float_to_half(d, x), hn::Rebind<std::uint16_t, D>(), reinterpret_cast<std::uint16_t*>(to));
#endif
}

template <class D>
HWY_INLINE void store_numbers(hn::Vec<D> x, D d, hwy::bfloat16_t* to) {
  hn::StoreU(float_to_bfloat(d, x), hn::Rebind<std::uint16_t, D>(), reinterpret_cast<std::uint16_t*>(to));
}

#undef TROUPE_HAS_F16C

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
