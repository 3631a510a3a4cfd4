// Many random numbers at once.

#include "kernels/random_bits.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/random_bits.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/mix-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t lanes = HWY_LANES(std::uint64_t);
using numbers = hn::CappedTag<std::uint64_t, lanes>;

/// Stores `count` numbers, one vector `of(i)` at a time.
template <class Of>
HWY_INLINE void store_all(std::size_t count, std::uint64_t* out, Of of) {
  const numbers d;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(of(i), d, out + i);
  if (i == count) return;
  HWY_ALIGN std::uint64_t last[lanes];
  hn::Store(of(i), d, last);
  std::copy_n(last, count - i, out + i);
}

// Value c of the stream is the hash of key + (c + 1) * increment.

void draw_all(std::uint64_t key, std::uint64_t first, std::size_t count, std::uint64_t* out) {
  const numbers d;
  const auto steps = times(d, hn::Iota(d, 0), splitmix::increment);
  store_all(count, out, [&](std::size_t i) HWY_ATTR {
    return mixed(d, hn::Add(hn::Set(d, key + (first + i + 1) * splitmix::increment), steps));
  });
}

void hash_all(std::uint64_t key, const std::uint64_t* counters, std::size_t count, std::uint64_t* out) {
  const numbers d;
  HWY_ALIGN std::uint64_t last[lanes] = {};
  const std::size_t whole = count / lanes * lanes;
  std::copy_n(counters + whole, count - whole, last);
  store_all(count, out, [&](std::size_t i) HWY_ATTR {
    const auto counter = i < whole ? hn::LoadU(d, counters + i) : hn::Load(d, last);
    return mixed(d, hn::Add(hn::Set(d, key + splitmix::increment), times(d, counter, splitmix::increment)));
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(draw_all);
HWY_EXPORT(hash_all);

void draw_bits(std::uint64_t key, std::uint64_t first, std::span<std::uint64_t> out) {
  HWY_DYNAMIC_DISPATCH(draw_all)(key, first, out.size(), out.data());
}

void draw_bits(std::uint64_t key, std::span<const std::uint64_t> counters, std::uint64_t* out) {
  HWY_DYNAMIC_DISPATCH(hash_all)(key, counters.data(), counters.size(), out);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
