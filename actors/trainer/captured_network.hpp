// A step of the whole network as one CUDA graph, from its passes to the lookup of the next step: as a step begins, the
// previous step's graph is launched, and the host waits for the step before that and reads its loss.

#pragma once

#include <cstdint>

#include "actors/trainer/whole_network.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
class captured_network final : public whole_network {
 public:
  /// `graphs`: those of the trainer's device.
  captured_network(step_work& work, kernels::step_graphs& graphs) : whole_network(work), graphs_(graphs) {}

  caf::error begin(const msg::trainer_position& from, kernels::device& device) override;

 private:
  void begin_step() override;
  dense_replica::pass pass_of(const model::batch& samples, const float* input) override;
  void await_device(bool needs_loss) override;

  kernels::step_graphs& graphs_;
  std::uint64_t first_ = 0;  ///< the first step that is a graph
};

}  // namespace troupe::actors
