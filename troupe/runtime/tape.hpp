// What a context remembers: a node for each thing that it computed, in the order of the computations.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe::runtime {

class tape;
class trainer_runtime;

/// Something computed, whose gradient may be wanted.
class node {
 public:
  virtual ~node() = default;

  /// Passes its output's gradient on to what it was computed from (`tape::give`). Called once it is complete.
  virtual void backward(tape& on) = 0;

  /// Of the output; empty until something has come.
  tensor grad;
};

/// Belongs to a trainer.
class tape {
 public:
  explicit tape(trainer_runtime& of);

  trainer_runtime& owner() const { return owner_; }
  /// The random numbers' key of passes in this context.
  std::uint64_t key() const { return key_; }

  /// Returns `output` as what `made` has computed, or will have computed.
  tensor add(tensor output, std::shared_ptr<node> made);

  /// Returns `x`, which `add` returned without numbers, with them.
  static tensor with_numbers(const tensor& x, const shape& lengths, std::shared_ptr<std::byte> numbers);

  /// The node that computed `x`; null: `x` is no result of a context. Throws `error` if it is one of another context.
  node* maker_of(const tensor& x) const;

  /// Adds to the gradient of a node's output. The first one is taken as it is, and may be changed later.
  static void give(node& to, tensor grad);

  /// Goes back from `loss`, whose node was added last or before.
  void backward(const tensor& loss);

  const std::vector<std::shared_ptr<node>>& nodes() const { return nodes_; }

 private:
  trainer_runtime& owner_;
  std::uint64_t number_;
  std::uint64_t key_;
  std::vector<std::shared_ptr<node>> nodes_;
};

}  // namespace troupe::runtime
