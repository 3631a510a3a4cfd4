// The trainer: one rank's training loop as an event-driven state machine.
//
// A step runs when its rows have come and the previous step's buckets have been reduced:
//   forward, loss, and backward to the inputs;
//   the table gradients go to the servers, with the optimizer step riding on them, and the lookup of the next step
//   follows at once (servers park it until this step is committed); where rows may lack K steps, the lookups of the
//   next K steps have been sent before;
//   while the servers work, backward to the parameters; each bucket goes to the allreduce group as soon as it is full
//   (on a device, it is computed before, and goes there with the event after which it is full); while the group and the
//   servers work, the batch after those is prepared.
// On a CUDA device the trainer is a thread of its own with two streams: one computes, the other copies rows there that
// come from the host, and their gradients back. The host waits once a step, for the loss and the rows' gradient; by
// then the rest of the backward pass is in the stream, and when the next step's rows come they are copied while it, the
// allreduce and the update are still under way. A NaN that only the device sees there is told one step later, under the
// step that it was in.
//
// With accumulation, buckets and the optimizer step leave with the last batch of each optimizer step only.
// Where all ranks must agree on the gradient first (clipping, NaN policy `skip`), the optimizer step does not ride: the
// trainer asks the servers for the norm of theirs, and every rank draws the same conclusion from the same numbers.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/compute_devices.hpp"
#include "actors/table_exchange.hpp"
#include "kernels/device_array.hpp"
#include "model/exact_sum.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "model/metrics.hpp"
#include "protocol/messages.hpp"

namespace troupe {

/// Global steps of a job on its data.
std::uint64_t total_steps(const job& what, const dataset& data);

class trainer_state {
 public:
  using pointer = trainer_actor::stateful_pointer<trainer_state>;

  explicit trainer_state(pointer self) : self_(self) {}

  /// For error lines: who, and the step under way.
  std::string name;
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers);
  caf::result<trained> handle(train& order);
  void handle(const stop&) { stop_wanted_ = true; }
  caf::result<actor_status> handle(const actor_query& query);

 private:
  using clock = std::chrono::steady_clock;

  /// A step's batch and what has come for it.
  struct context {
    std::uint64_t step = 0;
    table_exchange::plan plan;
    std::vector<rows> answers;   // by server
    std::size_t unanswered = 0;  // lookups
  };

  /// One bucket of the optimizer step's dense gradient while the backward pass fills it.
  struct open_bucket {
    tensor_buffer grad;       // the processor's; a device's are stretches of `grads_`
    tensor sealed;            // a device's, when its last kernel is in the stream
    std::size_t written = 0;  // parameters, by the last batch
    bool is_sent = false;     // and its mean has not come yet
  };

  /// What the loop does when all the answers it waits for are in.
  enum class phase : std::uint8_t { looking_up, reducing, evaluating, saving, done };

  caf::error set_up(train& order);
  caf::error restore(const trainer_position& from);
  context prepare(std::uint64_t of_step, result<batch>&& samples);
  void prepare_next();
  /// Sends `message` to actor `number`, which owes an answer; without one this trainer fails.
  template <class Answer, class Handle, class Message, class F>
  void ask(const Handle& whom, std::uint32_t number, Message message, F on_answer);
  void look_up_through(std::uint64_t last);
  void look_up(context& wanted, std::uint32_t staleness, network_input& into);
  void arrived();
  void advance();

  // One step, in order.
  void compute();
  void count_staleness();
  caf::error backward_inputs(const batch& samples);
  caf::error begin_pass(const batch& samples);
  caf::error end_pass(const batch& samples);
  network_input& input_of(std::uint64_t of_step) { return inputs_[of_step % inputs_.size()]; }
  network_input& input() { return input_of(step); }
  void pass_to_inputs(std::size_t size, const hybrid_model::targets& targets);
  bool is_on_host() const { return compute_->where().is_host(); }
  void reduce_gradient();
  void backward_parameters();
  bool is_long(const batch& samples) const;
  bool blocks_link(const batch& samples) const;
  void after_others(std::function<void()> what);
  void open_buckets();
  std::uint32_t bucket_of(parameter_range range) const;
  float* in_bucket(parameter_range range);
  tensor seal_bucket(std::uint32_t bucket);
  float* gradient_at(parameter_range range);
  void finished(parameter_range range);
  void spoil();
  void send_buckets();
  void send_bucket(std::uint32_t bucket);
  void send_gradients();
  void ask_for_norms();
  void take(const reduced& mean);
  void conclude();
  void apply(parameter_range range, const float* grad);
  void step_done();
  void save_or_go_on();
  void go_on();

  // The optimizer step that the step under way belongs to.
  std::uint64_t update() const { return (step - 1) / job_.accumulate + 1; }
  bool begins_update() const { return (step - 1) % job_.accumulate == 0; }
  bool ends_update() const { return step % job_.accumulate == 0 || step == total_steps_; }
  /// Whether ranks agree on the gradient before it is applied.
  bool concludes() const { return job_.clip_norm > 0 || job_.nan == nan_policy::skip; }

  // Epochs.
  bool ends_epoch() const;
  bool completes_epoch() const { return step % data_->steps_per_epoch() == 0; }
  bool evaluates() const;
  bool saves() const;
  tensor copy_of(const kernels::device_array<float>& numbers);
  void begin_evaluation();
  void save();
  void begin_epoch();
  void report_epoch();
  void report_progress();
  void evaluate_next();
  void score();
  void finish();

  void look_for_non_finite(const float* numbers, std::size_t count, const char* what);
  void fetch_checks(kernels::stream& on);
  void synchronize();
  void forget_means();
  void judge_checks(std::uint64_t last_step);
  void fail(std::uint64_t at_step, const caf::error& cause);

  void tell_missing_rows(const context& batch, actor_status& now) const;
  void tell_missing_gradient(actor_status& now) const;

  pointer self_;
  caf::typed_response_promise<trained> promise_;

  // What is trained.
  job job_;
  std::uint32_t rank_ = 0;
  std::uint64_t total_steps_ = 0;
  std::shared_ptr<const dataset> data_;
  std::unique_ptr<hybrid_model> model_;
  table_exchange exchange_;
  allreduce_actor group_;
  std::uint32_t group_number_ = 0;
  report_actor reports_;
  bool remote_ = false;                     ///< servers and master are in other processes
  caf::timespan patience_ = caf::infinite;  ///< with their answers
  bool saves_ = false;
  std::uint64_t checkpoint_every_ = 0;

  // The dense part, on this rank's device.
  kernels::device_array<float> weights_;
  kernels::device_array<float> first_state_;
  kernels::device_array<float> second_state_;
  kernels::device_array<float> grads_;
  std::vector<parameter_range> bucket_plan_;
  std::vector<open_bucket> buckets_;
  std::uint32_t batches_ = 0;  ///< in the buckets, of the optimizer step under way
  kernels::device_array<float>
      further_grad_;                        ///< a layer's gradient of a further batch, before it is added to its bucket
  bool has_gradient_ = false;               ///< the step under way has a gradient for the tables
  kernels::device_array<float> mean_grad_;  ///< the whole reduced gradient, where ranks conclude before they apply it
  exact_sum table_norm_;                    ///< squared norm of the tables' gradients
  std::vector<bool> norm_missing_;          ///< by server: its share of that has not come
  hybrid_model::activations activations_;
  float* grad_outputs_ = nullptr;  ///< of the step under way, in the activations
  /// Of a device's steps by turns: those whose rows have been asked for, which servers fill; that of the step under
  /// way; and the one before, free again when the host has waited for the step under way.
  std::vector<network_input> inputs_;
  network_input test_input_;
  kernels::mirrored_array<float> grad_input_;
  std::shared_ptr<const kernels::event> passed_;   ///< the gradient of the step's input is written
  kernels::uploaded_array<std::int64_t> classes_;  ///< what the batch's loss compares with
  kernels::uploaded_array<float> values_;
  kernels::mirrored_array<double> scalars_;  ///< the loss, or a norm

  /// A search for NaN and Inf whose outcome the host does not know yet.
  struct open_check {
    std::uint64_t step;
    std::size_t count;
    const char* what;
  };
  std::deque<open_check> open_checks_;
  std::size_t fetched_checks_ = 0;  ///< of the open ones: their outcome is here as soon as the host has waited for it
  std::uint64_t next_check_ = 0;
  kernels::mirrored_array<kernels::non_finite> check_results_;  ///< by number, counted round

  /// The pass from the input to its gradient, learned for the batch sizes and addresses that come again.
  std::map<std::pair<std::size_t, std::vector<const void*>>, std::unique_ptr<kernels::graph>> passes_;
  std::vector<blob> means_;  ///< that the stream has been asked to use since it was last waited for

  phase phase_ = phase::looking_up;
  std::size_t waiting_ = 0;      ///< answers still to come, but those to lookups
  std::deque<context> ahead_;    ///< of the coming steps: looked up, or here, or prepared
  std::uint64_t looked_up_ = 0;  ///< the last step whose rows have been asked for
  context computed_;             ///< of the step under way
  context tested_;               ///< test rows to be scored
  bool stop_wanted_ = false;     ///< by this rank
  bool stopping_ = false;        ///< by any rank, as of the step under way: all ranks agree
  bool failed_ = false;

  // Evaluation of this rank's share of the test rows.
  std::uint64_t test_next_ = 0;
  predictions predictions_;

  // Figures.
  std::uint64_t epoch_ = 0;
  clock::time_point epoch_begin_;
  clock::time_point last_progress_;
  std::uint64_t epoch_samples_ = 0;
  double epoch_loss_ = 0;
  std::vector<double> losses_;
  std::uint64_t skipped_ = 0;
  std::uint64_t lookups_ = 0;
  std::uint64_t staleness_sum_ = 0;
  std::uint32_t staleness_max_ = 0;
  double progress_loss_ = 0;
  std::uint64_t progress_samples_ = 0;

  // They go first, when they have passed, before all that they use. Where both use an array, the host has waited for
  // the one before it asks the other for anything, or the other waits.
  std::unique_ptr<kernels::stream> copies_;  ///< to the device and back
  std::unique_ptr<kernels::stream> compute_;
};

template <class Answer, class Handle, class Message, class F>
void trainer_state::ask(const Handle& whom, std::uint32_t number, Message message, F on_answer) {
  const message_id asked = id_of(message.head);
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

/// The behavior of trainer `rank` in run `run` with `servers` parameter servers; spawn with this function.
trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                     std::uint32_t servers);

}  // namespace troupe
