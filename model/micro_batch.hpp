// How a rank's batch is cut into micro-batches: ranges of neighbouring samples; if they cannot have equal sizes, the
// first ones have one sample more. With fewer samples than micro-batches, the last micro-batches are empty, and
// skipped.

#pragma once

#include <algorithm>
#include <cstddef>

namespace troupe::model {

struct micro_batch {
  std::size_t first = 0;  ///< sample of the batch
  std::size_t size = 0;
};

/// Returns micro-batch `number` of `count`, of a batch of `size` samples.
constexpr micro_batch micro_batch_of(std::size_t size, std::size_t count, std::size_t number) {
  const std::size_t longer = size % count;
  return {number * (size / count) + std::min(number, longer), size / count + (number < longer ? 1 : 0)};
}

/// Returns how many of `count` micro-batches have samples; these are the first ones.
constexpr std::size_t micro_batches_with_samples(std::size_t size, std::size_t count) { return std::min(size, count); }

}  // namespace troupe::model
