// An optimizer's step as a function that is given from outside, for those that programs add (nn/own_optimizer.hpp).

#pragma once

#include <cstdint>
#include <span>

namespace troupe {

/// Weights that take a step together, with what belongs to each of them at the same place.
struct weight_block {
  std::span<float> weights;
  std::span<const float> gradient;
  std::span<float> first;   ///< the first buffer of the optimizer's state; empty: it has none
  std::span<float> second;  ///< the second one, likewise
  double lr = 0;            ///< the learning rate of the step, by its schedule
  std::uint64_t step = 0;   ///< the number of the optimizer step, from 1
};

class update_rule {
 public:
  virtual ~update_rule() = default;
  /// Takes a step. Each weight and its state depend on what is at their place only, so that the result does not depend
  /// on how weights are cut into blocks. May throw. Thread: any, several at a time on disjoint blocks.
  virtual void update(const weight_block& of) const = 0;
};

}  // namespace troupe
