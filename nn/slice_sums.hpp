// What the slices of a network that tensor parallelism cuts tell each other while their passes are under way.

#pragma once

#include <cstddef>

namespace troupe::nn {

class slice_sums {
 public:
  virtual ~slice_sums() = default;

  /// Returns room for this slice's share of the next sum, `rows` x `cols` numbers, until `sum`.
  virtual float* share(std::size_t rows, std::size_t cols) = 0;
  /// Sets `to` to the sum of all slices' shares, in the order of the slices: the same bits on each. The pass waits
  /// until all have given theirs. Requires: all slices call it equally often, in the same order, with as many numbers.
  virtual void sum(float* to) = 0;
};

}  // namespace troupe::nn
