#include "model/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/uint128.hpp"

namespace troupe::model {

namespace {

constexpr int limb_bits = 32;
constexpr std::int64_t limb_mask = (std::int64_t{1} << limb_bits) - 1;
// The top limb, which receives all carries, and the index of the count after it.
constexpr std::size_t top = exact_sum::size - 2;
constexpr std::size_t left_out = exact_sum::size - 1;
// The exponent of the unit of limb 0: that of the smallest double.
constexpr int unit = -1074;
// Each addition adds less than 2^32 to a limb below the top one.
constexpr std::uint32_t carry_after = 1U << 30;

}  // namespace

std::optional<exact_sum> exact_sum::from(std::span<const std::int64_t> limbs) {
  if (limbs.size() != size) return std::nullopt;
  const auto is_carried = [](std::int64_t limb) { return limb >= 0 && limb <= limb_mask; };
  if (!std::ranges::all_of(limbs.first(top), is_carried)) return std::nullopt;
  // Finite sums are far smaller, and thousands of them can still be merged.
  constexpr std::int64_t most = std::int64_t{1} << 50;
  if (!std::ranges::all_of(limbs.last(2), [](std::int64_t limb) { return limb >= 0 && limb <= most; }))
    return std::nullopt;
  exact_sum sum;
  std::ranges::copy(limbs, sum.limbs_.begin());
  return sum;
}

void exact_sum::add(double x) {
  if (!(x >= 0 && x <= std::numeric_limits<double>::max())) {
    ++limbs_[left_out];
    return;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & 0xfffffffffffff;
  // x = mantissa * 2^(unit + place)
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  const int place = std::max(exponent, 1) - 1;
  const uint128 shifted = static_cast<uint128>(mantissa) << place % limb_bits;
  const auto first = static_cast<std::size_t>(place / limb_bits);
  for (std::size_t i = 0; i < 3; ++i)
    limbs_[first + i] += static_cast<std::int64_t>(shifted >> limb_bits * i) & limb_mask;
  if (++taken_ == carry_after) carry();
}

void exact_sum::merge(const exact_sum& other) {
  exact_sum carried = other;
  carried.carry();
  for (std::size_t i = 0; i < size; ++i) limbs_[i] += carried.limbs_[i];
  if (++taken_ == carry_after) carry();
}

void exact_sum::carry() {
  for (std::size_t i = 0; i < top; ++i) {
    limbs_[i + 1] += limbs_[i] >> limb_bits;
    limbs_[i] &= limb_mask;
  }
  taken_ = 0;
}

double exact_sum::value() const {
  exact_sum sum = *this;
  sum.carry();
  if (sum.limbs_[left_out] != 0) return std::numeric_limits<double>::quiet_NaN();
  std::size_t highest = top;
  while (highest > 2 && sum.limbs_[highest] == 0) --highest;
  // The bits of three limbs, truncated to 64. The last bit is set if any lower bit is (sticky bit), so that the
  // conversion to double rounds correctly. (If the top limb has more than 32 bits, the sum exceeds all doubles.)
  uint128 bits = 0;
  for (std::size_t i = 0; i < 3; ++i) bits = bits << limb_bits | static_cast<std::uint64_t>(sum.limbs_[highest - i]);
  const int cut = std::bit_width(static_cast<std::uint64_t>(bits >> 64));
  const auto is_set = [](std::int64_t limb) { return limb != 0; };
  const bool rest =
      (bits & ((uint128{1} << cut) - 1)) != 0 || std::ranges::any_of(std::span(sum.limbs_).first(highest - 2), is_set);
  const auto kept = static_cast<std::uint64_t>(bits >> cut) | static_cast<std::uint64_t>(rest);
  return std::ldexp(static_cast<double>(kept), unit + limb_bits * static_cast<int>(highest - 2) + cut);
}

std::span<const std::int64_t> exact_sum::limbs() {
  carry();
  return limbs_;
}

}  // namespace troupe::model
