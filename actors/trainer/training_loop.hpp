// A trainer's training loop as an event-driven state machine. It sequences steps, evaluations, checkpoints and the end.
// Its phases and their transitions: `trainer_phase`. The work of a step, from its rows to its gradients, is done by the
// step's body (`step_body`), which the loop makes at the beginning; their common state is `step_work`.
//
// A step runs when its rows have arrived and the previous step's buckets have been reduced. With accumulation, buckets
// and the optimizer step are sent only with the last batch of each optimizer step. If all ranks must agree on the
// gradient first (clipping, NaN policy `skip`), gradients do not order the optimizer step: the trainer asks the servers
// for the norm of theirs, and every rank makes the same decision from the same numbers.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "actors/common/compute_devices.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/trainer/step_body.hpp"
#include "actors/trainer/step_work.hpp"
#include "actors/trainer/trainer_assignment.hpp"
#include "actors/trainer/trainer_body.hpp"
#include "actors/trainer/trainer_phase.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
class training_loop final : public trainer_body {
 public:
  /// `others`: the trainers with the other parts of its network, from part 1. Requires: `assigned` outlives this
  /// object.
  training_loop(trainer_context actor, const trainer_assignment& assigned, std::vector<msg::part_actor> others);

  void begin(msg::train& order) override;
  void stop() override { work_.votes.vote_to_stop(); }
  void report(msg::actor_status& now) const override;
  void take(msg::activation_gradient&& grad) override { hand_over(std::move(grad)); }
  void take(msg::part_outputs&& outputs) override { hand_over(std::move(outputs)); }
  void take(msg::partial_sum&& share) override { hand_over(std::move(share)); }

 private:
  using context = step_work::context;

  const model::job& job() const { return work_.job(); }
  void enter(trainer_phase next) { work_.enter(next); }
  void fail(std::uint64_t at_step, const caf::error& cause) { work_.fail(at_step, cause); }
  /// Passes a message of another part to the body.
  template <class Message>
  void hand_over(Message&& message) {
    if (work_.is_over()) return;
    if (auto error = body_->take(std::forward<Message>(message))) fail(step_, error);
  }

  // Set-up.
  caf::error set_up(msg::train& order);
  void plan(const msg::train& order);
  void make_client(msg::train& order, const compute_devices& devices, kernels::device& device);
  void make_body(const compute_devices& devices, kernels::device& device);
  void start(const msg::trainer_position& from);

  // Sequence.
  void advance();
  bool blocks_link(const model::batch& samples) const;
  bool yields_to_all();
  void clip_and_step();
  void step_done();

  // Between steps.
  /// Returns whether test rows are scored after this step. An elastic run that stops may continue with other trainers,
  /// which could not report this epoch.
  bool evaluates_now() const {
    return work_.schedule.evaluates_after(step_) &&
           (!work_.votes.stops() || (job().elastic.is_on() && work_.schedule.completes_epoch(step_)));
  }
  void begin_evaluation();
  void evaluate_next();
  void score();
  void report_epoch();
  void save_or_continue();
  void save();
  void begin_save();
  void hand_over_state();
  void saved();
  void proceed();
  void finish();
  void deliver();
  /// Sends to the master, which may block if its output is read slowly.
  template <class Message>
  void send_report(Message message) {
    const inline_execution::elsewhere there(actor_.woken, actor_.self);
    actor_.self->send(work_.assigned.reports, std::move(message));
  }

  void report_missing_rows(const context& batch, msg::actor_status& now) const;
  void report_missing_gradient(msg::actor_status& now) const;

  actor_trace& trace_;   ///< the actor's
  std::uint64_t& step_;  ///< the actor's
  step_work work_;
  std::vector<msg::part_actor> others_;  ///< moved into the body if it leads them
  std::unique_ptr<step_body> body_;      ///< null before the order to train. Destroyed first: it uses `work_`
};

}  // namespace troupe::actors
