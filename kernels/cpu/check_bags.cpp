// Validates a batch of bags: one pass without branches finds whether there is a fault; only then is the first fault
// searched.

#include <algorithm>

#include "kernels/embedding_bag.hpp"

namespace troupe::kernels {
namespace {

/// Sets the sign bit if x is outside [0, last]. Unsigned, because `last - x` may wrap (only if x is negative).
std::uint64_t outside(std::int64_t x, std::uint64_t last) {
  const auto bits = static_cast<std::uint64_t>(x);
  return bits | (last - bits);
}

bool has_sign(std::uint64_t bits) { return static_cast<std::int64_t>(bits) < 0; }

bool any_offset_fault(const bags_view& bags) {
  const std::span<const std::int64_t> offsets = bags.offsets;
  if (offsets.empty()) return !bags.indices.empty();
  const std::uint64_t count = bags.indices.size();
  std::uint64_t faults = 0;
  for (const std::int64_t offset : offsets) faults |= outside(offset, count);
  for (std::size_t bag = 1; bag < offsets.size(); ++bag)
    faults |= static_cast<std::uint64_t>(offsets[bag]) - static_cast<std::uint64_t>(offsets[bag - 1]);
  return has_sign(faults) || offsets[0] != 0;
}

bool any_index_fault(const bags_view& bags, std::int64_t rows) {
  const std::uint64_t last = static_cast<std::uint64_t>(rows) - 1;
  std::uint64_t faults = 0;
  for (const std::int64_t index : bags.indices) faults |= outside(index, last);
  return has_sign(faults);
}

bags_fault first_offset_fault(const bags_view& bags) {
  const auto count = static_cast<std::int64_t>(bags.indices.size());
  std::int64_t previous = 0;
  for (std::size_t bag = 0; bag < bags.offsets.size(); ++bag) {
    const std::int64_t offset = bags.offsets[bag];
    if (offset < previous || offset > count || (bag == 0 && offset != 0))
      return {bags_fault::kind::offset, bag, offset};
    previous = offset;
  }
  return {bags_fault::kind::offset, 0, count};  // indices without any bag
}

bags_fault first_index_fault(const bags_view& bags, std::int64_t rows) {
  const auto at = std::ranges::find_if(bags.indices, [rows](std::int64_t i) { return i < 0 || i >= rows; });
  // The bag of the index is the last one that starts at or before it; empty bags at the same offset come earlier.
  const std::int64_t position = at - bags.indices.begin();
  const auto after = std::ranges::upper_bound(bags.offsets, position);
  return {bags_fault::kind::index, static_cast<std::size_t>(after - bags.offsets.begin()) - 1, *at};
}

}  // namespace

bags_fault check_bags(const bags_view& bags, std::int64_t rows) {
  if (!bags.weights.empty() && bags.weights.size() != bags.indices.size())
    return {bags_fault::kind::weights, 0, static_cast<std::int64_t>(bags.weights.size())};
  if (any_offset_fault(bags)) return first_offset_fault(bags);
  if (any_index_fault(bags, rows)) return first_index_fault(bags, rows);
  return {};
}

}  // namespace troupe::kernels
