// The interface for optimizer steps that programs add (nn/own_optimizer.hpp).

#pragma once

#include <cstdint>
#include <span>

namespace troupe {

/// Weights that are updated together; their gradients and states have the same indices.
struct weight_block {
  std::span<float> weights;
  std::span<const float> gradient;
  std::span<float> first;   ///< the first buffer of the optimizer's state; may be empty
  std::span<float> second;  ///< the second buffer; may be empty
  double lr = 0;            ///< the step's learning rate, by its schedule
  std::uint64_t step = 0;   ///< the number of the optimizer step, from 1
};

class update_rule {
 public:
  virtual ~update_rule() = default;
  /// Takes a step. Each weight and its state depend on the values at their index only, so that the result does not
  /// depend on the division into blocks. May throw. Thread: any, several at a time on disjoint blocks.
  virtual void update(const weight_block& of) const = 0;
};

}  // namespace troupe
