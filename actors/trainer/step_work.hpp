// The state that a trainer's loop (`training_loop`) and the body of its steps (`step_body`) share: the trainer's task,
// its progress, and the objects that do the work: the network's numbers and passes (`dense_replica`), the tables' rows
// and gradients (`sparse_client`), the test rows (`rank_evaluation`), figures (`epoch_tally`), the schedule
// (`step_schedule`). It also has the requests to other actors that both of them make.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/common/actor_trace.hpp"
#include "actors/common/actor_yield.hpp"
#include "actors/trainer/allreduce_client.hpp"
#include "actors/trainer/coming_steps.hpp"
#include "actors/trainer/dense_replica.hpp"
#include "actors/trainer/epoch_tally.hpp"
#include "actors/trainer/rank_checkpoint.hpp"
#include "actors/trainer/rank_evaluation.hpp"
#include "actors/trainer/sparse_client.hpp"
#include "actors/trainer/step_schedule.hpp"
#include "actors/trainer/step_votes.hpp"
#include "actors/trainer/trainer_assignment.hpp"
#include "actors/trainer/trainer_body.hpp"
#include "actors/trainer/trainer_phase.hpp"
#include "model/hybrid.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
struct step_work {
  using context = sparse_client::context;

  /// The current step.
  struct current_step {
    context rows = {};
    context before = {};  ///< the rows of the step before, if a graph that reads them may be active
    bool has_gradient = false;
    std::uint64_t begun = 0;  ///< the last step that has begun; if steps overlap, perhaps a later one
  };

  /// `resume` is called when an answer has come: the trainer continues if nothing is missing. Requires: `by` and `what`
  /// outlive this object.
  step_work(const trainer_context& by, const trainer_assignment& what, std::function<void()> resume);
  step_work(const step_work&) = delete;

  const model::job& job() const { return *assigned.job; }
  const model::data_spec& spec() const { return assigned.data->spec(); }
  bool ends_update() const { return schedule.ends_update(step); }
  /// Returns whether ranks must agree on the gradient before it is applied.
  bool clips_or_skips() const { return job().clip_norm > 0 || job().nan == model::nan_policy::skip; }

  void enter(trainer_phase next);
  bool is_over() const { return actors::is_over(phase); }
  /// Ends the actor, and with it the run. Only the first failure counts.
  void fail(std::uint64_t at_step, const caf::error& cause);
  /// Fails with the first NaN or Inf found in the steps up to `last_step`. Returns false if this trainer has failed.
  bool check_finite(std::uint64_t last_step);

  // -- answers ---------------------------------------------------------------------------

  /// Sends a request to actor `number`, and calls `on_answer` with its answer. On an error, this trainer fails.
  template <class Answer, class Handle, class Message, class F>
  void ask(const Handle& receiver, std::uint32_t number, Message message, F on_answer) {
    const std::uint64_t at_step = message.head.step;
    actor.ask<Answer>(receiver, {.number = number}, std::move(message), std::move(on_answer),
                      [this, at_step](const caf::error& error) { fail(at_step, error); });
  }
  template <class F>
  void reduce(std::uint32_t bucket, std::uint32_t weight, msg::tensor share, const step_votes::vote& own, F on_mean) {
    group.reduce(step, bucket, weight, std::move(share), own, std::move(on_mean),
                 [this, at_step = step](const caf::error& error) { fail(at_step, error); });
  }
  void arrived() {
    --waiting;
    advance();
  }
  /// Calls `what` and continues, after the actors that get messages from now on have run.
  void after_others(std::function<void()> what);

  // -- set-up and lookups ----------------------------------------------------------------

  /// Makes the replica of this trainer's part of the network, which starts after `from`. `slices`: the other slices of
  /// the part's stage, or null.
  caf::error make_replica(const msg::trainer_position& from, kernels::device& device, nn::slice_sums* slices);
  /// Plans the lookups of a batch, once it has been checked. Thread: any.
  caf::expected<context> prepare(std::uint64_t of_step, result<model::batch>&& samples) const;
  /// Prepares the batch after the last one looked up, unless it is prepared.
  void prepare_next();
  /// Looks up the rows of the next step, which may lack `staleness` updates. Returns false if this trainer has failed.
  /// Requires: there is a next step.
  bool look_up_next(std::uint32_t staleness);
  /// Looks up the rows of the steps up to `last` that have not been looked up, as stale as the job allows.
  void look_up_through(std::uint64_t last);
  /// Requires: until the answers have arrived, `wanted` keeps its address and, on a device, `into` is not used
  /// otherwise.
  void look_up(context& wanted, std::uint32_t staleness, network_input& into);

  // -- a step, in order ------------------------------------------------------------------

  /// Makes the next step the current one.
  void begin_step();
  /// Takes the step's batch from `coming`, and looks up the rows of the steps after it.
  void take_batch();
  /// Fills an input with a batch's rows, and checks them.
  caf::error pool_input(context& of, network_input& input);
  /// The key of the random numbers in a step's passes.
  std::uint64_t pass_key(std::uint64_t of_step) const;
  /// Counts a batch's loss. Returns false if it is not finite: then this trainer has failed, or the batch has no
  /// gradient.
  bool take_step_loss(std::uint64_t of_step, std::size_t size, double loss);
  /// Sends the tables' gradients to the servers.
  void send_gradients();
  /// Requests the norm of the servers' gradients.
  void ask_for_norms();
  /// Sends a bucket to the group. `hears_others`: between steps this trainer waits for other actors anyway, and handles
  /// their messages meanwhile; so no actor is woken if the mean is just its own share.
  void send_bucket(std::uint32_t bucket, bool hears_others);
  /// Returns whether a step's backward pass takes so long that other actors should not wait for its thread.
  bool is_long(const model::batch& samples) const;
  void note_device_work() {
    for (kernels::stream_timer* one : replica->timers()) trace.note_device_work(*one);
  }

  // The task.
  const trainer_context& actor;
  actor_trace& trace;   ///< the actor's
  std::uint64_t& step;  ///< the actor's
  const trainer_assignment& assigned;
  const std::function<void()> advance;  ///< `resume`
  const allreduce_client group;
  step_schedule schedule;

  // Progress.
  trainer_phase phase = trainer_phase::idle;
  std::size_t waiting = 0;  ///< pending answers, except to lookups
  current_step now;
  step_votes votes;
  rank_checkpoint checkpoint;
  epoch_tally tally;
  actor_yield yield;

  // The objects that do the work.
  model::network network;  ///< this trainer's part of it
  sparse_client client;
  std::optional<coming_steps> coming;
  rank_evaluation evaluation;
  std::optional<dense_replica> replica;  ///< destroyed before the others, whose memory its streams may use
};

}  // namespace troupe::actors
