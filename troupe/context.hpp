// A context: one batch's way forward and back. What is computed in it is remembered, so that `backward` can go back
// through it; the gradients live in it until an optimizer takes its step with them. Nothing has to be set to zero: the
// next batch has a context of its own.

#pragma once

#include <memory>

#include "troupe/future.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

namespace runtime {
class tape;
}

/// Belongs to the task that made it (`trainer::new_context`).
class context {
 public:
  explicit context(std::unique_ptr<runtime::tape> made);
  context(context&&) noexcept;
  context& operator=(context&&) noexcept;
  ~context();

  /// Computes the gradients of `loss`, a single number of this context, as far as remote modules. The gradients of
  /// parameters of this process follow in the optimizer's step, while the servers work. Fails if the loss is NaN or
  /// Inf.
  future<> backward(const tensor& loss);

  runtime::tape& tape() const { return *tape_; }

 private:
  std::unique_ptr<runtime::tape> tape_;
};

}  // namespace troupe
