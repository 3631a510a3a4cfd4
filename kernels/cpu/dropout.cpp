// Dropout: a mask that is a hash of row and column, so that it needs no memory and is the same on every device.

#include <algorithm>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/random_bits.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/mix-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t lanes = HWY_LANES(float);
using numbers = hn::CappedTag<float, lanes>;
using halves = hn::Rebind<std::uint32_t, numbers>;

/// Returns the upper halves of random_bits(key, first), random_bits(key, first + 1), ...
HWY_INLINE hn::Vec<halves> upper_bits(std::uint64_t key, std::uint64_t first) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(halves(), static_cast<std::uint32_t>(random_bits(key, first) >> 32));
#else
  const hn::Repartition<std::uint64_t, halves> d;
  const auto steps = times(d, hn::Iota(d, 0), splitmix::increment);
  const auto bits_from = [&](std::uint64_t counter) HWY_ATTR {
    const auto z = hn::Add(hn::Set(d, key + (counter + 1) * splitmix::increment), steps);
    return hn::BitCast(halves(), mixed(d, z));
  };
  return hn::ConcatOdd(halves(), bits_from(first + lanes / 2), bits_from(first));
#endif
}

void drop(const dropout_mask& mask, std::size_t rows, std::size_t width, const float* x, float* y) {
  const numbers d;
  const auto threshold = hn::Set(halves(), mask.threshold);
  const auto scale = hn::Set(d, mask.scale);
  for (std::size_t r = 0; r < rows; ++r, x += width, y += width) {
    const std::uint64_t key = random_bits(mask.key, mask.first_row + r);
    const auto of = [&](std::size_t column, const float* from) HWY_ATTR {
      const auto dropped = hn::RebindMask(d, hn::Lt(upper_bits(key, column), threshold));
      return hn::IfThenZeroElse(dropped, hn::Mul(hn::LoadU(d, from), scale));
    };
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes) hn::StoreU(of(i, x + i), d, y + i);
    if (i == width) continue;
    float last[lanes] = {};
    std::copy_n(x + i, width - i, last);
    hn::StoreU(of(i, last), d, last);
    std::copy_n(last, width - i, y + i);
  }
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(drop);

void cpu_stream::dropout(const dropout_mask& mask, std::size_t rows, std::size_t width, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(drop)(mask, rows, width, x, y);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
