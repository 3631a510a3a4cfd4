// Normal and uniform numbers, vectorized in 64 bits. No multiply-add is fused, so that all instruction sets give the
// same bits.

#include "kernels/normal.hpp"

#include <cstdint>
#include <numbers>
#include <vector>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/idle_threads.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/normal.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/mix-inl.hpp"
#include "kernels/random_bits.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// sum * z + next, with two roundings.
template <class D>
HWY_INLINE hn::Vec<D> horner(D d, hn::Vec<D> sum, hn::Vec<D> z, double next) {
  return hn::Add(hn::Mul(sum, z), hn::Set(d, next));
}

/// ln(x) for normal x > 0: with x = 2^e * m and m in [sqrt(1/2), sqrt(2)), e ln 2 + 2 atanh((m - 1) / (m + 1)).
template <class D>
HWY_INLINE hn::Vec<D> natural_logarithm(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  // Adding the distance from sqrt(1/2) to 1 carries into the exponent exactly if m >= sqrt(2).
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t one = 0x3ff0000000000000;
  constexpr std::uint64_t fraction = 0x000fffffffffffff;
  const auto shifted = hn::Add(hn::BitCast(du, x), hn::Set(du, one - root_half));
  const auto biased = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<52>(shifted)));
  const auto exponent = hn::Sub(biased, hn::Set(d, 1023.0));
  const auto mantissa = hn::BitCast(d, hn::Add(hn::And(shifted, hn::Set(du, fraction)), hn::Set(du, root_half)));
  const auto s = hn::Div(hn::Sub(mantissa, hn::Set(d, 1.0)), hn::Add(mantissa, hn::Set(d, 1.0)));
  const auto z = hn::Mul(s, s);
  // |s| <= 0.1716: the first term left out is below 2e-13.
  auto series = hn::Set(d, 1.0 / 13);
  for (const int k : {11, 9, 7, 5, 3, 1}) series = horner(d, series, z, 1.0 / k);
  return hn::Add(hn::Mul(exponent, hn::Set(d, std::numbers::ln2)), hn::Mul(hn::Mul(hn::Set(d, 2.0), s), series));
}

/// cos(2 pi u) for u in [0, 1), as sin(2 pi (|u - 1/2| - 1/4)) with an argument of at most pi/2.
template <class D>
HWY_INLINE hn::Vec<D> cosine_of_turn(D d, hn::Vec<D> u) {
  const auto distance = hn::Abs(hn::Sub(u, hn::Set(d, 0.5)));
  const auto x = hn::Mul(hn::Set(d, 2 * std::numbers::pi), hn::Sub(distance, hn::Set(d, 0.25)));
  const auto z = hn::Mul(x, x);
  // The first term left out is below 7e-12.
  auto series = hn::Set(d, -1.0 / 1307674368000);
  for (const double term : {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0})
    series = horner(d, series, z, term);
  return hn::Mul(x, series);
}

/// `unit_from(mix(z))`.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<double, D>> unit(D d, hn::Vec<D> z) {
  z = mixed(d, z);
  const hn::Rebind<double, D> wide;
  const auto upper = hn::BitCast(hn::RebindToSigned<D>(), hn::ShiftRight<11>(z));
  return hn::Mul(hn::ConvertTo(wide, upper), hn::Set(wide, 0x1p-53));
}

/// Draws numbers `i` and on, as many as a vector has.
template <class D>
HWY_INLINE void draw_normal(D d, std::uint64_t key, std::uint64_t i, float deviation, float* out) {
  const hn::RebindToUnsigned<D> du;
  // Value c of the stream is the hash of key + (c + 1) * increment.
  const auto before =
      hn::Add(hn::Set(du, key + 2 * i * splitmix::increment), times(du, hn::Iota(du, 0), 2 * splitmix::increment));
  const auto u1 = unit(du, hn::Add(before, hn::Set(du, splitmix::increment)));
  const auto u2 = unit(du, hn::Add(before, hn::Set(du, 2 * splitmix::increment)));
  const auto left = hn::Sub(hn::Set(d, 1.0), u1);
  const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), natural_logarithm(d, left)));
  const hn::Rebind<float, D> narrow;
  const auto standard = hn::DemoteTo(narrow, hn::Mul(radius, cosine_of_turn(d, u2)));
  hn::StoreU(hn::Mul(standard, hn::Set(narrow, deviation)), narrow, out + i);
}

/// The same for uniform numbers.
template <class D>
HWY_INLINE void draw_uniform(D d, std::uint64_t key, std::uint64_t i, double first, double range, float* out) {
  const hn::RebindToUnsigned<D> du;
  const auto at =
      hn::Add(hn::Set(du, key + (i + 1) * splitmix::increment), times(du, hn::Iota(du, 0), splitmix::increment));
  const hn::Rebind<float, D> narrow;
  const auto number = hn::Add(hn::Set(d, first), hn::Mul(unit(du, at), hn::Set(d, range)));
  hn::StoreU(hn::DemoteTo(narrow, number), narrow, out + i);
}

/// Calls `draw` with a tag and the index of its first number, until all are drawn.
template <class Draw>
void in_vectors(std::size_t count, Draw draw) {
  constexpr std::size_t lanes = HWY_LANES(double);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) draw(hn::CappedTag<double, lanes>(), i);
  for (; i < count; ++i) draw(hn::CappedTag<double, 1>(), i);
}

void draw_all(const row_init& from, std::uint64_t key, std::size_t count, float* out) {
  if (from.is == row_init::kind::uniform) {
    const double range = from.second - from.first;
    in_vectors(count, [&](auto d, std::size_t i) HWY_ATTR { draw_uniform(d, key, i, from.first, range, out); });
  } else {
    const auto deviation = static_cast<float>(from.first);
    in_vectors(count, [&](auto d, std::size_t i) HWY_ATTR { draw_normal(d, key, i, deviation, out); });
  }
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(draw_all);

void draw_numbers(const row_init& from, std::uint64_t key, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(draw_all)(from, key, count, out);
}

void draw_normals(std::uint64_t key, std::size_t count, float* out) { draw_numbers({}, key, count, out); }

void cpu_stream::draw_rows(const row_init& from, const row_keys& keys, std::size_t rows, std::size_t dim,
                           table_view table) {
  constexpr std::size_t bytes_in_the_time_of_a_number = 40;
  const std::size_t row_bytes = dim * size_of(table.type);
  in_ranges(rows, rows * dim * bytes_in_the_time_of_a_number, [&](std::size_t begin, std::size_t end) {
    std::vector<float> numbers(dim);
    for (std::size_t row = begin; row < end; ++row) {
      draw_numbers(from, keys.of(row), dim, numbers.data());
      encode(dim, numbers.data(), {static_cast<std::byte*>(table.data) + row * row_bytes, table.type});
    }
  });
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
