// Sums between the passes of a network's slices (tensor parallelism).

#pragma once

#include <cstddef>

namespace troupe::nn {

class slice_sums {
 public:
  virtual ~slice_sums() = default;

  /// Returns a buffer for this slice's share of the next sum, `rows` x `cols` numbers, valid until `sum`.
  virtual float* share(std::size_t rows, std::size_t cols) = 0;
  /// Sets `to` to the sum of all slices' shares, in slice order: the same bits on each. The pass waits until all have
  /// given theirs. Requires: all slices call it equally often, in the same order, with as many numbers.
  virtual void sum(float* to) = 0;
};

}  // namespace troupe::nn
