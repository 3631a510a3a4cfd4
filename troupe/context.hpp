// A context: one batch's forward and backward pass. It records what is computed in it, for `backward`, and holds the
// gradients until an optimizer has used them in its step. Nothing has to be set to zero: the next batch has its own
// context.

#pragma once

#include <memory>

#include "troupe/future.hpp"
#include "troupe/source_location.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

namespace runtime {
class tape;
}

/// Belongs to the task that made it (`trainer::new_context`). A context of `trainer::no_grad` records nothing: it has
/// no backward pass and no step.
class context {
 public:
  explicit context(std::unique_ptr<runtime::tape> made);
  context(context&&) noexcept;
  context& operator=(context&&) noexcept;
  ~context();

  /// Computes the gradients of `loss`, one number of this context, times `scale`, as far as remote modules. Gradients
  /// of this process's parameters follow in the optimizer's step, while the servers work, or when this context computes
  /// more. They are computed from the tensors that the context was given, in the caller's memory: do not change these
  /// tensors before the step is over or the context has ended. This is not checked, and would give wrong gradients.
  /// Fails if the loss is NaN or Inf. `co_await` it before the optimizer's step and before another `backward`: until
  /// then both throw `error`.
  ///
  /// Gradients of several losses add up, and are exchanged once, in the optimizer's step. The inputs of a loss are
  /// freed: no other loss can pass back through them, except through rows that were looked up.
  future<> backward(const tensor& loss, double scale = 1, source_location at = source_location::current());

  runtime::tape& tape() const { return *tape_; }

 private:
  std::unique_ptr<runtime::tape> tape_;
};

}  // namespace troupe
