// A trainer's work in a step, from its rows to its gradients, and with test rows and at the end: each way of passing
// batches through the network is a class. The loop (`training_loop`) calls it, and does not know which class it has:
//
//   `whole_network`        passes batches through the whole network itself
//     `captured_network`   and captures each step as a CUDA graph
//   `pipeline_leader`          has a part of the network, and leads the trainers with the other parts
//     `stream_leader`      and begins the next steps before it uses a step's gradient

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "actors/trainer/step_work.hpp"
#include "model/exact_sum.hpp"
#include "protocol/messages.hpp"
#include "protocol/status.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor, and is destroyed before `work`.
class step_body {
 public:
  /// The whole network at the end of the run.
  struct outcome {
    msg::tensor weights;
    msg::tensor buffers;
    double step_seconds = 0;  ///< for a network in parts, with the next member: see `msg::trained`
    double pass_seconds = 0;
  };

  explicit step_body(step_work& work) : work_(work) {}
  virtual ~step_body() = default;
  step_body(const step_body&) = delete;
  step_body& operator=(const step_body&) = delete;

  /// Makes the replica, and what its passes need. Called once, first.
  virtual caf::error begin(const msg::trainer_position& from, kernels::device& device) = 0;

  // -- a step, in order ------------------------------------------------------------------

  /// Looks up the rows that `step` needs to run.
  virtual void look_up_for(std::uint64_t step) { work_.look_up_through(step); }
  /// Returns whether these rows have come.
  virtual bool has_rows_for(std::uint64_t step) const { return work_.coming->have_rows(step); }
  /// Begins the next step, passes its batch, sends its gradients, and looks up the rows for the step after it. The step
  /// is done when no answer is pending. Requires: its rows have come.
  virtual void run() = 0;
  /// Returns the squared norm of the whole network's mean gradient. Requires: the step is done.
  virtual model::exact_sum squared_norm() { return work_.replica->mean_squared_norm(); }
  /// Applies the mean gradient times `factor`, or leaves it out, if ranks had to agree on it first.
  virtual void decide(bool applies, float factor) {
    if (applies)
      work_.replica->apply(factor);
    else
      work_.replica->leave_out();
  }
  /// Reads the pending losses. Called before any work other than a step.
  virtual void settle() {}

  // -- between steps ---------------------------------------------------------------------

  /// Passes the current test rows forward, scores them, and calls `then`. Requires: their input is filled.
  virtual void evaluate(const std::function<void()>& then) = 0;
  /// Calls `then` when `state` and `end` can return the values after the last step. `ends`: no step follows.
  virtual void gather(bool ends, const std::function<void()>& then) = 0;
  /// Returns the dense state of the whole network. Requires: `gather` has called back.
  virtual std::vector<msg::tensor> state() = 0;
  /// Returns the network at the end of the run. Requires: `gather` with `ends` has called back.
  virtual outcome end() = 0;
  /// Adds the phase, waits and queues that only this body knows.
  virtual void report(msg::actor_status& /*now*/) const {}

  // -- messages of other parts; they fail if none is expected ----------------------------

  virtual caf::error take(msg::activation_gradient&& /*grad*/) { return work_.actor.refusal(); }
  virtual caf::error take(msg::part_outputs&& /*outputs*/) { return work_.actor.refusal(); }
  virtual caf::error take(msg::partial_sum&& /*share*/) { return work_.actor.refusal(); }

 protected:
  step_work& work_;
};

}  // namespace troupe::actors
