// Exchanges between the passes of several ranks, such as the statistics of a batch normalization over all ranks.

#pragma once

#include <cstdint>
#include <span>

namespace troupe::nn {

class rank_means {
 public:
  virtual ~rank_means() = default;

  /// The number of ranks.
  virtual std::uint32_t ranks() const = 0;

  /// Replaces the numbers by their means over all ranks, summed in rank order: the same bits on each. The pass waits
  /// until all ranks have given as many numbers. Requires: all ranks call it equally often, in the same order.
  virtual void mean(std::span<float> numbers) = 0;
};

}  // namespace troupe::nn
