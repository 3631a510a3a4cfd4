// The exchanges between trainers within training passes of a module that synchronizes, such as batch normalization over
// all trainers. All trainers exchange numbers equally often. In each exchange the trainers that run a pass run the same
// one. A trainer without a batch, or with fewer parts of one, joins without numbers from its optimizer step
// (`step_reductions::join_idle`). The step continues when all trainers have reached it.

#pragma once

#include <cstdint>
#include <span>

#include "nn/rank_means.hpp"

namespace troupe::runtime {

class replica;
class trainer_runtime;

/// Averages numbers of one replica's passes over the trainers. The trainer's task waits within the pass for the sums.
class pass_means final : public nn::rank_means {
 public:
  pass_means(trainer_runtime& of, const replica& where) : trainer_(of), replica_(where) {}

  /// Marks that the backward pass begins.
  void turn() { way_ = "backward"; }

  std::uint32_t ranks() const override;
  /// Throws `error` if another trainer is in another pass, has ended or is late, or if no task is running.
  void mean(std::span<float> numbers) override;

 private:
  trainer_runtime& trainer_;
  const replica& replica_;
  const char* way_ = "forward";
};

}  // namespace troupe::runtime
