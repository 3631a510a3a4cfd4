// The trainer: one rank's training loop as an event-driven state machine. It sequences the work and sends the messages;
// its parts do the work: the network's numbers and passes (`dense_replica`), the tables' rows and gradients
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

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/actor_trace.hpp"
#include "actors/ask.hpp"
#include "actors/batches_ahead.hpp"
#include "actors/dense_replica.hpp"
#include "actors/epoch_tally.hpp"
#include "actors/inline_execution.hpp"
#include "actors/interrupted_pass.hpp"
#include "actors/part_follower.hpp"
#include "actors/rank_checkpoint.hpp"
#include "actors/sliced_passes.hpp"
#include "actors/sparse_client.hpp"
#include "actors/stage_passes.hpp"
#include "actors/step_schedule.hpp"
#include "actors/trainer_maker.hpp"
#include "actors/trainer_phase.hpp"
#include "base/assert.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Returns the number of global steps of a job on its data.
std::uint64_t total_steps(const model::job& what, const model::dataset& data);

/// The parts of a network that a trainer leads, and its own one.
struct led_parts {
  std::vector<msg::part_actor> others;           ///< by part, from 1
  model::exact_sum squared_norm;                 ///< of the others' gradients
  std::vector<std::vector<msg::tensor>> states;  ///< of all parts, as they come
  double pass_seconds = 0;                       ///< of all parts, likewise
  bool are_through = false;                      ///< the step's micro-batches have been passed back
  std::uint64_t forwarded = 0;                   ///< where steps overlap, the last one that has begun
  std::optional<std::uint64_t> stops_after;      ///< likewise: the step that the run ends with, as all agree
  std::map<std::uint64_t, std::shared_ptr<const model::batch>> batches;  ///< by step, of those under way
  std::optional<dense_replica::part> evaluated;                          ///< its own part of the current test rows
  std::size_t missing_outputs = 0;                                       ///< of the current test rows
  std::optional<stage_passes> passes;                                    ///< of its own part
  std::optional<sliced_passes> slices;  ///< destroyed first: a pass that waits uses the others
};

class trainer_state {
 public:
  using pointer = msg::program_trainer_actor::stateful_pointer<trainer_state>;

  explicit trainer_state(pointer self) : self_(self) {}

  /// For error lines: the actor's name, and the current step.
  std::string name;
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers);
  void meet(trainer_peers peers) { all_ = std::move(peers); }
  caf::result<msg::trained> handle(msg::train& order);
  void handle(const msg::stop&) { stop_wanted_ = true; }
  void handle(const msg::trainer_ended&) {}  // all trainers of a job take as many steps
  caf::result<msg::actor_status> handle(const msg::actor_query& query);
  // From other parts of its replica.
  void handle(msg::activation& input);
  void handle(msg::activation_gradient& grad);
  void handle(msg::part_outputs& outputs);
  void handle(msg::partial_sum& share);
  caf::result<msg::part_state> handle(const msg::part_query& query);
  caf::result<msg::squared_norm> handle(const msg::gradient_norm& query);
  caf::result<msg::committed> handle(const msg::optimizer_step& order);

 private:
  using context = sparse_client::context;

  /// The actors it talks to, besides the servers.
  struct counterparts {
    msg::allreduce_actor group;
    std::uint32_t group_number = 0;
    msg::report_actor reports;
    bool remote = false;                    ///< servers and master are in other processes
    caf::timespan timeout = caf::infinite;  ///< of requests to them
  };

  caf::error open_job(const msg::train& order);
  caf::error set_up(msg::train& order);
  caf::error make_replica(const msg::trainer_position& from);
  bool captures_steps(const compute_devices& devices) const;
  caf::error follow(msg::train& order);
  caf::error lead();
  void give_share(std::uint64_t number, const msg::tensor& share);
  void resume(const msg::trainer_position& from);
  void enter(trainer_phase next);
  void fail(std::uint64_t at_step, const caf::error& cause);

  // Lookups.
  caf::expected<context> prepare(std::uint64_t of_step, result<model::batch>&& samples) const;
  context prepared(std::uint64_t of_step, caf::expected<context>&& made);
  void prepare_next();
  /// Sends a request to actor `number`, and calls `on_answer` with its answer. On an error, this trainer fails.
  template <class Answer, class Handle, class Message, class F>
  void ask(const Handle& whom, std::uint32_t number, Message message, F on_answer) {
    const std::uint64_t at_step = message.head.step;
    ask_traced<Answer>(self_, trace, woken_.get(), whom, number, std::move(message), std::move(on_answer),
                       [this, at_step](const caf::error& error) { fail(at_step, error); });
  }
  /// To the master, which may block where people read slowly.
  template <class Message>
  void send_report(Message message) {
    const inline_execution::elsewhere there(woken_.get(), self_);
    self_->send(peers_.reports, std::move(message));
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
  void send_to_slices(const network_input& input, const std::shared_ptr<const model::batch>& of,
                      model::micro_batch samples, std::uint32_t number, bool trains);
  msg::activation activation_of(std::uint64_t of_step);
  msg::activation activation_of(std::uint64_t of_step, const std::shared_ptr<const model::batch>& whole,
                                model::micro_batch samples, std::uint32_t number, msg::tensor numbers, bool trains);
  void send_forward(const stage_passes::pass& batch, const dense_replica::part& passed);
  void advance_passes();
  void after_passes();
  void passed_through_parts();
  // Where steps overlap.
  std::uint64_t forwards_through(std::uint64_t from) const;
  void stream_through_parts();
  caf::error begin_in_stream(context& next);
  bool has_rows(std::uint64_t next) const;
  void take_wishes(bool stop, bool save);
  void ask_parts_for_norms();
  void evaluate_through_parts(const model::batch& samples);
  void has_outputs(const float* outputs);
  void gather_states(bool ends, std::function<void()> then);
  caf::error refuse_part_message() const;
  bool comes_from(std::uint32_t rank) const;
  bool comes_from_leader() const;
  bool comes_early(std::function<void()> handle_it);
  template <class Answer, class Query>
  caf::result<Answer> ask_follower(const Query& query);
  msg::part_actor part_at(std::uint32_t rank) const;
  std::uint32_t number_of_part(std::uint32_t part) const;
  void note_device_work() {
    for (kernels::stream_timer* one : replica_->timers()) trace.note_device_work(*one);
  }
  bool judge(std::uint64_t last_step);

  bool is_long(const model::batch& samples) const;
  bool blocks_link(const model::batch& samples) const;
  void after_others(std::function<void()> what);
  std::function<void(caf::event_based_actor*)> turn_of(std::function<void()> what);
  bool gives_way();
  bool ends_update() const { return schedule_.ends_update(step); }
  /// An elastic run that stops may go on with other trainers, which could not tell of this epoch.
  bool evaluates_now() const {
    return schedule_.evaluates_after(step) && (!stopping_ || (job_.elastic.is_on() && schedule_.completes_epoch(step)));
  }
  /// Returns whether ranks must agree on the gradient before it is applied.
  bool clips_or_skips() const { return job_.clip_norm > 0 || job_.nan == model::nan_policy::skip; }

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

  pointer self_;
  caf::typed_response_promise<msg::trained> promise_;

  // What to do.
  model::job job_;
  std::uint32_t rank_ = 0;            ///< in the run: replica x parts + part
  std::uint32_t replica_number_ = 0;  ///< as which servers and groups know it
  std::uint32_t servers_ = 0;         ///< of the run
  std::shared_ptr<const model::dataset> data_;
  step_schedule schedule_;
  counterparts peers_;
  trainer_peers all_;                         ///< the other trainers
  std::vector<std::function<void()>> early_;  ///< what parts have sent before the order to train: handles it

  // Progress.
  trainer_phase phase_ = trainer_phase::idle;
  std::size_t waiting_ = 0;      ///< awaited answers, except to lookups
  std::deque<context> ahead_;    ///< of the next steps: looked up or prepared
  std::uint64_t looked_up_ = 0;  ///< the last step whose rows have been looked up
  context computed_;             ///< of the current step
  context launched_;             ///< of the step before, whose graph may be under way
  context tested_;               ///< test rows to be scored
  bool has_gradient_ = false;    ///< the current step has a gradient
  bool stop_wanted_ = false;     ///< this rank has been asked to stop
  std::chrono::steady_clock::time_point gave_way_ = std::chrono::steady_clock::now();
  bool stopping_ = false;  ///< some rank has, as of the current step: all ranks agree
  bool saving_ = false;    ///< some rank wants a checkpoint after the current step: likewise
  rank_checkpoint checkpoint_;

  // Its parts.
  std::unique_ptr<inline_execution> woken_;  ///< runs the actors that this one wakes; null: workers do
  kernels::step_graphs* graphs_ = nullptr;   ///< captures the steps from `graphs_from_` on; null: nothing does
  std::uint64_t graphs_from_ = 0;
  std::unique_ptr<model::hybrid_model> network_;
  sparse_client client_;
  std::optional<batches_ahead<caf::expected<context>>> batches_;
  network_input test_input_;
  test_share tests_;
  epoch_tally tally_;
  std::optional<dense_replica> replica_;     ///< its streams may use the others' memory, so it goes before them
  std::optional<led_parts> parts_;           ///< of its network, if there are several and it leads them
  std::unique_ptr<part_follower> follower_;  ///< its part of a network that it does not lead; else null
  /// The other ranks' passes, if the network asks them. Destroyed first: a pass that waits uses the replica.
  std::optional<interrupted_pass> others_;
};

/// The behavior of trainer `rank` in run `run` with `servers` parameter servers; spawn with this function.
msg::program_trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                                  std::uint32_t servers);

/// Spawns the program's trainer (a `trainer_maker`), on the devices that the system is set to.
made_trainer program_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers);

}  // namespace troupe::actors
