// The actor that runs a user's trainer function: it takes the place of the program's trainer in a run. The function is
// a task, and the actor is its executor: while the task waits, the actor handles other messages.

#pragma once

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/checkpoint_timer.hpp"
#include "actors/inline_execution.hpp"
#include "actors/sparse_client.hpp"
#include "actors/traced_system.hpp"
#include "actors/trainer_maker.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/caller.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/kept_state.hpp"
#include "troupe/runtime/loop_places.hpp"
#include "troupe/runtime/outside_caller.hpp"
#include "troupe/runtime/pipeline_stage.hpp"
#include "troupe/runtime/remote_table.hpp"
#include "troupe/runtime/replica.hpp"
#include "troupe/task.hpp"
#include "troupe/trainer.hpp"

namespace troupe::runtime {

using trainer_function = std::function<task<>(trainer)>;

class trainer_runtime;

/// What is awaited before something is over: it counts its parts. Belongs to one thread.
class unfinished {
 public:
  /// One part is there at once: that of who begins the others. `at_end` is called when all have ended, and none failed.
  unfinished(std::shared_ptr<promise<>> done, std::function<void()> at_end)
      : done_(std::move(done)), at_end_(std::move(at_end)) {}

  void begin_part() { ++parts_; }
  void end_part() {
    if (--parts_ == 0) at_end_();
  }
  /// Fails the promise; the parts that are left do not count any more.
  template <class Error>
  void fail(Error&& why) const {
    done_->fail(std::forward<Error>(why));
  }

 private:
  const std::shared_ptr<promise<>> done_;
  const std::function<void()> at_end_;
  int parts_ = 1;
};
using unfinished_ptr = std::shared_ptr<unfinished>;

/// The calls of a trainer's function.
class trainer_caller final : public actor_caller<msg::library_trainer_actor::stateful_pointer<trainer_runtime>> {
 public:
  explicit trainer_caller(trainer_runtime& of) : trainer_(of) {}
  trainer_runtime* trainer() override { return &trainer_; }
  void callback_threw(const std::exception_ptr& thrown) override;

 private:
  trainer_runtime& trainer_;
};

class trainer_runtime {
 public:
  using clock = std::chrono::steady_clock;
  using pointer = msg::library_trainer_actor::stateful_pointer<trainer_runtime>;

  explicit trainer_runtime(pointer self) : self_(self) {}
  ~trainer_runtime() {
    if (executor_) executor_->end_stack();
  }
  trainer_runtime(const trainer_runtime&) = delete;
  trainer_runtime& operator=(const trainer_runtime&) = delete;

  /// For error lines: the actor's name, and the current step.
  std::string name;
  std::uint64_t step = 0;
  actors::actor_trace trace;

  void start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers, trainer_function function);
  caf::result<msg::trained> handle(msg::train& order);
  void handle(const msg::stop& wish);
  caf::result<msg::actor_status> handle(const msg::actor_query& query);

  void handle(const msg::trainer_ended& word);

  /// From other trainers.
  void handle(msg::collective_share& share) {
    executor_->enter([&] { communicator_.take(share); });
  }
  void handle(const msg::collective_sum& sum) {
    executor_->enter([&] { communicator_.take(sum); });
  }
  void handle(msg::peer_tensor& sent) {
    executor_->enter([&] { communicator_.take(sent); });
  }
  void handle(const msg::peer_ended& word);

  /// What a callback threw that its function has given to a future.
  void callback_threw(const std::exception_ptr& thrown);

  // -- for the objects that the function uses -------------------------------------------

  std::uint32_t rank() const { return rank_; }
  std::uint32_t trainers() const { return trainers_; }
  std::uint64_t seed() const { return seed_; }
  /// Counts this trainer's contexts.
  std::uint64_t begin_context();

  loop_places& loops() { return loops_; }
  /// Ends the function if it is to stop alone. Between steps.
  void look_for_stop() const {
    if (stops_alone()) throw run_stopped();
  }
  /// What makes the batches of its loops ahead; null: nothing.
  std::shared_ptr<actors::batch_threads> batch_makers() const { return actors::batch_threads_of(self_->system()); }
  kept_state& kept() { return kept_; }
  trainer_caller& calls() { return calls_; }
  /// The next optimizer step of a server, as its messages name it; and the same, but 0 before the first.
  std::uint64_t step_of_server(std::uint32_t server) { return server_steps_[server] + 1; }
  std::uint64_t step_after_last(std::uint32_t server) {
    return server_steps_[server] == 0 ? 0 : server_steps_[server] + 1;
  }

  std::shared_ptr<replica> make_replica(std::shared_ptr<const nn::module> module, const data_parallel_options& options);
  std::shared_ptr<pipeline_stage> make_stage(const std::vector<nn::sequential>& stages,
                                             const pipeline_options& options);
  /// `deadline`: null: that of the run's requests.
  future<tensor> look_up(tape& on, const std::shared_ptr<const remote_table>& table,
                         std::span<const std::int64_t> indices, std::span<const std::int64_t> offsets,
                         std::optional<std::chrono::milliseconds> deadline);
  /// `text`: the optimizer as messages to servers have it.
  void set_optimizer(const model::optimizer_spec& chosen, const std::string& text, const std::vector<trained>& members);
  /// For reports of progress.
  void note_loss(double value) {
    loss_sum_ += value;
    ++losses_;
  }
  future<> take_step(tape& with, const std::vector<trained>& members);
  /// Throws `error` unless the last optimizer step was awaited; `what`: what cannot be before that.
  void check_step_awaited(const std::string& what) const;
  /// Reduces the gradient of a replica that is not reduced with all trainers, and applies it as optimizer step
  /// `update`.
  future<> apply_gradient(tape& of, replica& one, std::uint64_t update);

  /// The runtime whose task runs on the calling thread. Throws `error` if there is none.
  static trainer_runtime& current();

  runtime::communicator& communicator() { return communicator_; }
  /// Gives the other trainers' passes numbers, for theirs; `words`: the pass. Of who stands by the tensor is empty.
  future<std::vector<tensor>> meet(std::string words, tensor numbers);
  /// Returns how long a collective may take.
  std::chrono::milliseconds deadline() const;

 private:
  /// Sends a request to actor `number`, and calls `on_answer` or `on_error`.
  template <class Answer, class Handle, class Message, class F, class E>
  void ask(const Handle& whom, std::uint32_t number, Message message, F on_answer, E on_error) {
    ask<Answer>(whom, number, std::move(message), peers_.timeout, std::move(on_answer), std::move(on_error));
  }
  /// `timeout`: of this request.
  template <class Answer, class Handle, class Message, class F, class E>
  void ask(const Handle& whom, std::uint32_t number, Message message, caf::timespan timeout, F on_answer, E on_error) {
    const msg::message_id asked = msg::id_of(message.head);
    trace.asks(message.head, caf::type_id_v<Message>, number);
    self_->request(whom, timeout, std::move(message))
        .then(
            [this, asked, on_answer = std::move(on_answer)](Answer& answer) {
              const actors::inline_execution::scope here(woken_.get(), self_);
              trace.has_answer(asked);
              const actors::actor_trace::handling scope(trace, answer, trace::flag::answer);
              executor_->enter([&] { on_answer(answer); });
            },
            [this, asked, number, timeout, on_error = std::move(on_error)](const caf::error& error) {
              trace.has_answer(asked);
              const bool is_late = error == caf::sec::request_timeout;
              executor_->enter(
                  [&] { on_error(is_late ? late(number, protocol::message_name_v<Message>, timeout) : error); });
            });
  }

  /// Returns the error of a question that actor `number` has left unanswered.
  static caf::error late(std::uint32_t number, std::string_view question, caf::timespan timeout);

  /// The actors it talks to.
  struct counterparts {
    std::vector<std::vector<msg::module_ref>> tables;  ///< the shards of each table of the run
    msg::allreduce_actor group;
    std::uint32_t group_number = 0;
    msg::report_actor reports;
    bool remote = false;  ///< they are in other processes
    /// The deadline of a request to a server or the master. A call in a group has one of its own, whose error
    /// names the members that are late.
    caf::timespan timeout = caf::infinite;
  };

  void run_function();
  void ended(const std::exception_ptr& thrown);
  void returned();
  void note_end(std::uint32_t rank, std::uint64_t steps);
  void deliver();
  std::vector<msg::module_ref> shards_of(const reference& module) const;
  void report();
  void check_peers() const;
  /// Whether all trainers take their steps together.
  bool is_synchronous() const {
    return !server_steps_.empty() || std::ranges::any_of(replicas_, [](const auto& one) { return one->is_in_step(); });
  }
  /// Whether the run is to stop, and no step of all trainers will say so.
  bool stops_alone() const { return stop_wanted_ && !saves_ && !is_synchronous(); }
  void send_gradients(const tape& with, const std::vector<trained>& members);
  void check_all_awaited() const;
  void end_step(const std::shared_ptr<promise<>>& done);
  void leave_step(const std::shared_ptr<promise<>>& done);
  bool saves_now() const;
  void save(std::function<void()> then, std::function<void(const error&)> on_error);
  void finish();
  void resume();
  void check_loops(bool is_first_step) const;
  /// The step that the function is in: from the beginning of an iteration to its optimizer step, the next one.
  std::uint64_t step_under_way() const { return step == steps_done_ && loops_.is_before_step() ? step + 1 : step; }
  void look_at_clock();
  std::vector<std::uint64_t> server_steps() const;
  void reduce(tape& with, replica& one, const unfinished_ptr& all);
  void reduce_among(tape& with, replica& one, std::uint64_t update, const unfinished_ptr& all);
  void reduce_overlapping(tape& with, replica& one, const unfinished_ptr& all);
  void agree(replica& one, const unfinished_ptr& all);
  void agree_later(replica& one, const unfinished_ptr& all);
  /// What the trainers wish after a step: that it be the last, or saved.
  struct wishes {
    bool stop = false;
    bool save = false;
  };
  future<wishes> ask_wishes(replica& by);
  void follow(const wishes& agreed) {
    stops_now_ = stops_now_ || agreed.stop;
    saving_ = saving_ || agreed.save;
  }
  task<> collect_stages();
  void with_all_stages(std::function<void()> then);
  task<> drain_stages();
  void with_drained_stages(std::function<void()> then, std::function<void(const std::exception_ptr&)> on_error);
  /// Whether passes of its replicas ask those of the other trainers.
  bool meets() const;
  void stand_by(const unfinished_ptr& all);

  pointer self_;
  trainer_caller calls_{*this};
  outside_caller_handle outside_;
  std::shared_ptr<actor_executor> executor_;
  std::unique_ptr<actors::inline_execution> woken_;  ///< runs the actors that this one wakes; null: workers do
  caf::typed_response_promise<msg::trained> promise_;
  trainer_function function_;

  std::uint32_t rank_ = 0;
  std::uint32_t trainers_ = 1;
  std::uint64_t seed_ = 1;
  counterparts peers_;
  /// Whether it saves checkpoints: at the end, and every so many steps (0: only at the end).
  bool saves_ = false;
  std::uint64_t checkpoint_every_ = 0;
  bool saves_by_time_ = false;
  std::optional<actors::checkpoint_timer> timer_;  ///< of rank 0, if it saves by time
  bool save_wanted_ = false;                       ///< by this trainer, after the current step
  bool saving_ = false;                            ///< by some trainer: all agree
  std::uint64_t saved_step_ = 0;
  loop_places loops_;
  kept_state kept_{loops_};
  bool is_over_ = false;  ///< its answer is given, or it has failed
  bool stop_wanted_ = false;
  bool stops_now_ = false;                ///< all trainers end after this step
  std::optional<future<wishes>> agreed_;  ///< where steps overlap, of some steps ago
  clock::time_point begin_;
  clock::time_point last_report_;
  double loss_sum_ = 0;  ///< since the last report
  std::uint64_t losses_ = 0;

  std::map<std::uint32_t, std::uint64_t> ended_peers_;  ///< by rank: their optimizer steps
  std::uint64_t contexts_ = 0;
  std::uint64_t steps_done_ = 0;
  std::shared_ptr<const detail::future_state> last_step_;  ///< null: there was none yet
  std::map<std::uint32_t, std::uint64_t> server_steps_;    ///< by server: the optimizer steps sent there
  std::map<std::shared_ptr<const remote_table>, actors::sparse_client> clients_;
  std::vector<std::shared_ptr<replica>> replicas_;
  std::vector<std::shared_ptr<pipeline_stage>> pipelines_;
  std::set<std::string> replica_names_;  ///< given by the user
  runtime::communicator communicator_{self_, trace, step};
  running_task collecting_;
  running_task draining_;
  running_task task_;  ///< destroyed first: it uses the others
};

/// Spawns trainer `rank` of run `run`, which runs `function`.
actors::made_trainer make_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank,
                                  std::uint32_t servers, trainer_function function);

}  // namespace troupe::runtime
