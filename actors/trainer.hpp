// The trainer: one rank's training loop as an event-driven state machine. It says what follows what, and sends the
// messages; the work is its parts': the network's numbers and passes (`dense_replica`), the tables' rows and gradients
// (`sparse_client`), the test rows (`test_share`), figures (`epoch_tally`), which step ends what (`step_schedule`).
// Its phases and how they follow each other: `trainer_phase`.
//
// A step runs when its rows have come and the previous step's buckets have been reduced:
//   forward, loss, and backward to the inputs;
//   the table gradients go to the servers, with the optimizer step riding on them, and the lookup of the next step
//   follows at once (servers park it until this step is committed); where rows may lack K steps, the lookups of the
//   next K steps have been sent before;
//   while the servers work, backward to the parameters; each bucket goes to the allreduce group as soon as it is full
//   (on a device, it is computed before, and goes there with the event after which it is full); while the group and the
//   servers work, the batch after those is prepared.
// On a CUDA device the trainer is a thread of its own. The host waits once a step, for the loss and the rows' gradient;
// when the next step's rows come they are copied while the backward pass, the allreduce and the update are still under
// way.
//
// With accumulation, buckets and the optimizer step leave with the last batch of each optimizer step only.
// Where all ranks must agree on the gradient first (clipping, NaN policy `skip`), the optimizer step does not ride: the
// trainer asks the servers for the norm of theirs, and every rank draws the same conclusion from the same numbers.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/actor_trace.hpp"
#include "actors/dense_replica.hpp"
#include "actors/epoch_tally.hpp"
#include "actors/sparse_client.hpp"
#include "actors/step_schedule.hpp"
#include "actors/trainer_phase.hpp"
#include "base/assert.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Global steps of a job on its data.
std::uint64_t total_steps(const model::job& what, const model::dataset& data);

class trainer_state {
 public:
  using pointer = msg::trainer_actor::stateful_pointer<trainer_state>;

  explicit trainer_state(pointer self) : self_(self) {}

  /// For error lines: who, and the step under way.
  std::string name;
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers);
  caf::result<msg::trained> handle(msg::train& order);
  void handle(const msg::stop&) { stop_wanted_ = true; }
  caf::result<msg::actor_status> handle(const msg::actor_query& query);

 private:
  using context = sparse_client::context;

  /// Whom it talks to, besides the servers.
  struct counterparts {
    msg::allreduce_actor group;
    std::uint32_t group_number = 0;
    msg::report_actor reports;
    bool remote = false;                    ///< servers and master are in other processes
    caf::timespan timeout = caf::infinite;  ///< with their answers
  };

  caf::error set_up(msg::train& order);
  caf::error make_replica(const msg::trainer_position& from);
  void resume(const msg::trainer_position& from);
  void enter(trainer_phase next);
  void fail(std::uint64_t at_step, const caf::error& cause);

  // Lookups.
  context prepare(std::uint64_t of_step, result<model::batch>&& samples);
  void prepare_next();
  /// Sends `message` to actor `number`, which owes an answer; without one this trainer fails.
  template <class Answer, class Handle, class Message, class F>
  void ask(const Handle& whom, std::uint32_t number, Message message, F on_answer) {
    const msg::message_id asked = msg::id_of(message.head);
    const std::uint64_t at_step = message.head.step;
    trace.asks(message.head, caf::type_id_v<Message>, number);
    self_->request(whom, caf::infinite, std::move(message))
        .then(
            [this, asked, on_answer = std::move(on_answer)](Answer& answer) {
              trace.has_answer(asked);
              const actor_trace::handling scope(trace, answer, trace::flag::answer);
              on_answer(answer);
            },
            [this, at_step](const caf::error& error) { fail(at_step, error); });
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
  caf::error backward_inputs(const model::batch& samples);
  caf::error begin_pass(const model::batch& samples);
  caf::error check_loss(const model::batch& samples);
  void send_gradients();
  void ask_for_norms();
  void reduce_gradient();
  void backward_parameters();
  void send_bucket(std::uint32_t bucket);
  void clip_and_step();
  void step_done();
  bool judge(std::uint64_t last_step);

  bool is_long(const model::batch& samples) const;
  bool blocks_link(const model::batch& samples) const;
  void after_others(std::function<void()> what);
  bool ends_update() const { return schedule_.ends_update(step); }
  /// Whether ranks agree on the gradient before it is applied.
  bool clips_or_skips() const { return job_.clip_norm > 0 || job_.nan == model::nan_policy::skip; }

  // Between steps.
  void begin_evaluation();
  void evaluate_next();
  void score();
  void report_epoch();
  void save_or_go_on();
  void save();
  void go_on();
  void finish();

  void tell_missing_rows(const context& batch, msg::actor_status& now) const;
  void tell_missing_gradient(msg::actor_status& now) const;

  pointer self_;
  caf::typed_response_promise<msg::trained> promise_;

  // What is to be done.
  model::job job_;
  std::uint32_t rank_ = 0;
  std::shared_ptr<const model::dataset> data_;
  step_schedule schedule_;
  counterparts peers_;

  // How far it is.
  trainer_phase phase_ = trainer_phase::idle;
  std::size_t waiting_ = 0;      ///< answers still to come, but those to lookups
  std::deque<context> ahead_;    ///< of the coming steps: looked up, or here, or prepared
  std::uint64_t looked_up_ = 0;  ///< the last step whose rows have been asked for
  context computed_;             ///< of the step under way
  context tested_;               ///< test rows to be scored
  bool has_gradient_ = false;    ///< the step under way has a gradient for the tables
  bool stop_wanted_ = false;     ///< by this rank
  bool stopping_ = false;        ///< by any rank, as of the step under way: all ranks agree

  // Its parts.
  std::unique_ptr<model::hybrid_model> network_;
  sparse_client client_;
  network_input test_input_;
  test_share tests_;
  epoch_tally tally_;
  std::optional<dense_replica> replica_;  ///< goes first: its streams may be using what the others have
};

/// The behavior of trainer `rank` in run `run` with `servers` parameter servers; spawn with this function.
msg::trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                          std::uint32_t servers);

}  // namespace troupe::actors
