// A context: one batch's way forward and back. What is computed in it is remembered, so that `backward` can go back
// through it; the gradients live in it until an optimizer takes its step with them. Nothing has to be set to zero: the
// next batch has a context of its own.

#pragma once

#include <memory>

#include "troupe/future.hpp"
#include "troupe/source_location.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

namespace runtime {
class tape;
}

/// Belongs to the task that made it (`trainer::new_context`). A context of `trainer::no_grad` remembers
/// nothing: there is no way back in it, and no step.
class context {
 public:
  explicit context(std::unique_ptr<runtime::tape> made);
  context(context&&) noexcept;
  context& operator=(context&&) noexcept;
  ~context();

  /// Computes the gradients of `loss`, a single number of this context, times `scale`, as far as remote modules. The
  /// gradients of parameters of this process follow in the optimizer's step, while the servers work, or when this
  /// context computes more. They are computed from the tensors that the context was given, in the caller's memory: do
  /// not change numbers of a tensor that the context has used before the step is over, or the context has ended. That
  /// is not noticed, and makes wrong gradients. Fails if the loss is NaN or Inf. `co_await` it before the optimizer's
  /// step and before another `backward`: until then both throw `error`.
  ///
  /// Gradients of several losses add up, and are exchanged once, in the optimizer's step. What a loss was computed from
  /// is freed: no other loss can go back through it, but through rows that were looked up.
  future<> backward(const tensor& loss, double scale = 1, source_location at = source_location::current());

  runtime::tape& tape() const { return *tape_; }

 private:
  std::unique_ptr<runtime::tape> tape_;
};

}  // namespace troupe
