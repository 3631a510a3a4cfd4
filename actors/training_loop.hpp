// A trainer's training loop as an event-driven state machine. It sequences the work and sends the messages; its parts
// do the work: the network's numbers and passes (`dense_replica`), the tables' rows and gradients
// (`sparse_client`), the test rows (`test_share`), figures (`epoch_tally`), the schedule (`step_schedule`). Its phases
// and their transitions: `trainer_phase`.
//
// A step runs when its rows have arrived and the previous step's buckets have been reduced:
//   forward, loss, and backward to the inputs;
//   the table gradients are sent to the servers and order the optimizer step; the lookup of the next step follows at
//   once (servers park it until this step is committed); with staleness K, the lookups of the next K steps have been
//   sent before;
//   while the servers work, backward to the parameters; each bucket is sent to the allreduce group as soon as it is
//   full (on a device, it is computed before, and sent with the event after which it is full); while the group and the
//   servers work, the next batch is prepared.
// On a CUDA device the trainer has a thread of its own, which also runs the actors that it wakes. The host waits once a
// step. If it needs the loss or the rows' gradient to go on, it waits for those; the next step's rows are copied when
// they arrive, during the backward pass, the allreduce and the update. Otherwise it goes on: it waits until the device
// has the step's input, and so the loss of the step before, with this step's passes enqueued. It takes the last loss
// before anything but a step follows.
// A step may be one CUDA graph (`captures_steps`), from its passes to the lookup of the next step: as a step begins,
// the graph of the one before is launched, and the host waits for the one before that, whose loss it takes.
//
// With accumulation, buckets and the optimizer step are sent only with the last batch of each optimizer step.
// A trainer whose network is cut into parts, the slices of stages, has the first one, and leads those of its replica: a
// batch's micro-batches go through them and back (`stage_passes`, `sliced_passes`) in place of its own passes. Other
// ranks follow (`part_follower`). If all ranks must agree on the gradient first (clipping, NaN policy `skip`),
// gradients do not order the optimizer step: the trainer asks the servers for the norm of theirs, and every rank
// decides the same from the same numbers.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/actor_name.hpp"
#include "actors/actor_trace.hpp"
#include "actors/actor_yield.hpp"
#include "actors/allreduce_client.hpp"
#include "actors/coming_steps.hpp"
#include "actors/compute_devices.hpp"
#include "actors/dense_replica.hpp"
#include "actors/epoch_tally.hpp"
#include "actors/inline_execution.hpp"
#include "actors/interrupted_pass.hpp"
#include "actors/part_links.hpp"
#include "actors/rank_checkpoint.hpp"
#include "actors/sliced_passes.hpp"
#include "actors/sparse_client.hpp"
#include "actors/stage_passes.hpp"
#include "actors/step_schedule.hpp"
#include "actors/step_votes.hpp"
#include "actors/trainer_assignment.hpp"
#include "actors/trainer_body.hpp"
#include "actors/trainer_phase.hpp"
#include "model/hybrid.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The parts of a network that a trainer leads, and its own one.
struct led_parts {
  led_parts(std::vector<msg::part_actor> all, part_links to) : others(std::move(all)), links(std::move(to)) {}

  std::vector<msg::part_actor> others;           ///< from part 1
  part_links links;                              ///< of its own part
  model::exact_sum squared_norm;                 ///< of the others' gradients
  std::vector<std::vector<msg::tensor>> states;  ///< of all parts, as they come
  double pass_seconds = 0;                       ///< of all parts, likewise
  bool are_through = false;                      ///< the step's micro-batches have been passed back
  std::uint64_t forwarded = 0;                   ///< where steps overlap, the last one that has begun
  std::optional<std::uint64_t> stops_after;      ///< likewise: the step that the run ends with, as all agree
  std::optional<dense_replica::part> evaluated;  ///< its own part of the current test rows
  std::size_t missing_outputs = 0;               ///< of the current test rows
  std::optional<stage_passes> passes;            ///< of its own part
  std::optional<sliced_passes> slices;           ///< destroyed first: a pass that waits uses the others
};

/// Belongs to the trainer's actor.
class training_loop final : public trainer_body {
 public:
  /// `others`: those that have the other parts of its network, from part 1. Requires: `assigned` outlives this object.
  training_loop(trainer_context actor, const trainer_assignment& assigned, std::vector<msg::part_actor> others);

  void begin(msg::train& order) override;
  void stop() override { votes_.vote_to_stop(); }
  void tell(msg::actor_status& now) const override;
  void take(msg::activation_gradient&& grad) override;
  void take(msg::part_outputs&& outputs) override;
  void take(msg::partial_sum&& share) override;

 private:
  using context = sparse_client::context;

  /// The steps as CUDA graphs.
  struct captured_steps {
    kernels::step_graphs* graphs = nullptr;  ///< null: they are none
    std::uint64_t from = 0;                  ///< the first one
    context launched = {};                   ///< of the step before, whose graph may be under way

    bool have(std::uint64_t step) const { return graphs != nullptr && step >= from; }
  };
  struct current_step {
    context rows = {};
    bool has_gradient = false;
  };
  struct test_rows {
    test_share share = {};
    context current = {};  ///< those to be scored next
    network_input input = {};
  };

  const model::job& job() const { return *assigned_.job; }
  const model::data_spec& spec() const { return assigned_.data->spec(); }
  void enter(trainer_phase next);
  void fail(std::uint64_t at_step, const caf::error& cause);

  // Set-up.
  caf::error set_up(msg::train& order);
  void start(const msg::trainer_position& from);
  void plan(const msg::train& order);
  void make_client(msg::train& order, const compute_devices& devices, kernels::device& device);
  caf::error make_replica(const msg::trainer_position& from, kernels::device& device);
  void make_parts(std::vector<msg::part_actor> others);
  void make_passes();
  bool captures_steps(const compute_devices& devices) const;

  // Lookups.
  caf::expected<context> prepare(std::uint64_t of_step, result<model::batch>&& samples) const;
  void prepare_next();
  /// Sends a request to actor `number`, and calls `on_answer` with its answer. On an error, this trainer fails.
  template <class Answer, class Handle, class Message, class F>
  void ask(const Handle& whom, std::uint32_t number, Message message, F on_answer) {
    const std::uint64_t at_step = message.head.step;
    actor_.ask<Answer>(whom, {.number = number}, std::move(message), std::move(on_answer),
                       [this, at_step](const caf::error& error) { fail(at_step, error); });
  }
  /// The same of another part of its network.
  template <class Answer, class Message, class F>
  void ask_part(std::uint32_t part, Message message, F on_answer) {
    ask<Answer>(parts_->others[part - 1], trainer_number(assigned_.rank + part, assigned_.servers), std::move(message),
                std::move(on_answer));
  }
  /// To the master, which may block where people read slowly.
  template <class Message>
  void send_report(Message message) {
    const inline_execution::elsewhere there(actor_.woken, actor_.self);
    actor_.self->send(assigned_.reports, std::move(message));
  }
  template <class F>
  void reduce(std::uint32_t bucket, std::uint32_t weight, msg::tensor share, const step_votes::vote& own, F on_mean) {
    group_.reduce(step_, bucket, weight, std::move(share), own, std::move(on_mean),
                  [this, at_step = step_](const caf::error& error) { fail(at_step, error); });
  }
  void look_up_through(std::uint64_t last);
  void look_up(context& wanted, std::uint32_t staleness, network_input& into);
  void arrived() {
    --waiting_;
    advance();
  }
  void advance();

  // One step, in order.
  void compute();
  void meet_or_end();
  void run_step();
  caf::error backward_inputs(const model::batch& samples);
  caf::error pool_input(context& of, network_input& input);
  caf::error begin_pass(const model::batch& samples);
  std::uint64_t pass_key(std::uint64_t of_step) const;
  bool waits_for_loss() const;
  void begin_graph();
  void take_losses(bool all);
  void take_loss();
  bool take_step_loss(std::uint64_t of_step, std::size_t size, double loss);
  void send_gradients();
  void ask_for_norms();
  void reduce_gradient();
  void backward_parameters();
  bool reduces_alone() const;
  void send_bucket(std::uint32_t bucket);
  void clip_and_step();
  void step_done();

  // The same through the parts of a network.
  void pass_through_parts();
  stage_passes::pass pass_of(std::uint64_t of_step, std::size_t size) const;
  msg::activation activation_of(std::uint64_t of_step) const;
  msg::activation activation_of(std::uint64_t of_step, const std::shared_ptr<const model::batch>& of,
                                std::uint32_t number) const;
  void send_input_beside(msg::activation what, const float* numbers, std::size_t samples);
  void advance_passes();
  void after_passes();
  void passed_through_parts();
  // Where steps overlap.
  std::uint64_t forwards_through(std::uint64_t from) const;
  void stream_through_parts();
  caf::error begin_in_stream(context& next);
  void count_votes(const step_votes::vote& all);
  void ask_parts_for_norms();
  msg::activation tested_activation() const;
  void evaluate_through_parts(const model::batch& samples);
  void has_outputs(const float* outputs);
  void gather_states(bool ends, const std::function<void()>& then);
  void note_device_work() {
    for (kernels::stream_timer* one : replica_->timers()) trace_.note_device_work(*one);
  }
  bool judge(std::uint64_t last_step);

  bool is_long(const model::batch& samples) const;
  bool blocks_link(const model::batch& samples) const;
  void after_others(std::function<void()> what);
  bool yields_to_all();
  bool ends_update() const { return schedule_.ends_update(step_); }
  /// An elastic run that stops may go on with other trainers, which could not tell of this epoch.
  bool evaluates_now() const {
    return schedule_.evaluates_after(step_) &&
           (!votes_.stops() || (job().elastic.is_on() && schedule_.completes_epoch(step_)));
  }
  /// Returns whether ranks must agree on the gradient before it is applied.
  bool clips_or_skips() const { return job().clip_norm > 0 || job().nan == model::nan_policy::skip; }

  // Between steps.
  void begin_evaluation();
  void evaluate_next();
  void score();
  void report_epoch();
  void save_or_go_on();
  void save();
  void begin_save();
  void hand_over_state();
  void saved();
  void go_on();
  void finish();
  void deliver();
  std::vector<msg::tensor> whole_state();

  void tell_missing_rows(const context& batch, msg::actor_status& now) const;
  void tell_parts(msg::actor_status& now) const;
  void tell_missing_gradient(msg::actor_status& now) const;

  // What to do.
  actor_trace& trace_;   ///< of the actor
  std::uint64_t& step_;  ///< likewise
  const trainer_assignment& assigned_;
  const allreduce_client group_;
  step_schedule schedule_;

  // Progress.
  trainer_phase phase_ = trainer_phase::idle;
  std::size_t waiting_ = 0;  ///< awaited answers, except to lookups
  current_step now_;
  step_votes votes_;
  rank_checkpoint checkpoint_;
  epoch_tally tally_;
  actor_yield yield_;

  // Its parts.
  captured_steps captured_;
  model::network network_;
  sparse_client client_;
  std::optional<coming_steps> coming_;
  test_rows tested_;
  std::optional<dense_replica> replica_;  ///< its streams may use the others' memory, so it goes before them
  std::optional<led_parts> parts_;        ///< of its network, if there are several
  /// The other ranks' passes, if the network asks them. Destroyed first: a pass that waits uses the replica.
  std::optional<interrupted_pass> others_;
};

}  // namespace troupe::actors
