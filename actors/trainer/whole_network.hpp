// A step of a trainer that has the whole network and makes its passes alone, on the processor or a CUDA device.
//
//   forward, loss, and backward to the inputs;
//   the table gradients are sent to the servers and order the optimizer step; the lookup of the next step follows at
//   once (servers park it until this step is committed); with staleness K, the lookups of the next K steps have been
//   sent before;
//   while the servers work, backward to the parameters; each bucket is sent to the allreduce group as soon as it is
//   full (on a device, it is computed before, and sent with the event after which it is full); while the group and the
//   servers work, the next batch is prepared.
//
// On a CUDA device the trainer has a thread of its own, which also runs the actors that it wakes. The host waits once a
// step. If it needs the loss or the rows' gradient to continue, it waits for those; the next step's rows are copied
// when they arrive, during the backward pass, the allreduce and the update. Otherwise it only waits until the device
// has the step's input, and so the loss of the step before; this step's passes are already enqueued. It reads the last
// loss before it does anything but a step.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "actors/trainer/dense_replica.hpp"
#include "actors/trainer/interrupted_pass.hpp"
#include "actors/trainer/step_body.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
class whole_network : public step_body {
 public:
  /// Requires: `work.network` is set.
  explicit whole_network(step_work& work);

  caf::error begin(const msg::trainer_position& from, kernels::device& device) override {
    return work_.make_replica(from, device, nullptr);
  }
  void run() override;
  void settle() override;
  void evaluate(const std::function<void()>& then) override;
  void gather(bool /*ends*/, const std::function<void()>& then) override { then(); }
  std::vector<msg::tensor> state() override { return work_.replica->state(); }
  outcome end() override { return {.weights = work_.replica->weights(), .buffers = work_.replica->buffers()}; }

 protected:
  /// Makes the next step the current one, before its batch is taken.
  virtual void begin_step() { work_.begin_step(); }
  virtual dense_replica::pass pass_of(const model::batch& samples, const float* input);
  /// Waits for the device, which has the step's passes to compute. `needs_loss`: waits until it has computed them.
  virtual void await_device(bool needs_loss) { take_losses(needs_loss); }
  void take_loss();

 private:
  void sync_or_end();
  void run_step();
  void join_without_batch();
  caf::error backward_inputs();
  caf::error begin_pass();
  bool waits_for_loss() const;
  void take_losses(bool all);
  void reduce_gradient();
  void backward_parameters();
  void send_bucket(std::uint32_t bucket) { work_.send_bucket(bucket, work_.client.servers() > 0); }

  /// Connects to the other ranks' passes, if the network needs them. A waiting pass uses the replica.
  std::optional<interrupted_pass> others_;
};

}  // namespace troupe::actors
