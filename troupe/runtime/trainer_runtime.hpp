// The body of a trainer that runs a user's function. The function is a task, and the actor is its executor: while the
// task waits, the actor handles other messages.
//
//   waiting ──▶ running ──▶ ending ──▶ over          any but over ──▶ over
//
//   | from    | to      | when                                                                                       |
//   |---------|---------|--------------------------------------------------------------------------------------------|
//   | waiting | running | the order to train comes                                                                   |
//   | running | ending  | the function has returned, or stops; what it has begun is awaited, and the last checkpoint |
//   | ending  | over    | the order is answered                                                                      |
//   | any     | over    | the run cannot continue                                                                    |

#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/trainer/progress_losses.hpp"
#include "actors/trainer/rank_checkpoint.hpp"
#include "actors/trainer/step_schedule.hpp"
#include "actors/trainer/step_votes.hpp"
#include "actors/trainer/trainer_body.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "base/assert.hpp"
#include "protocol/messages.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/caller.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/completion.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/kept_state.hpp"
#include "troupe/runtime/loop_places.hpp"
#include "troupe/runtime/outside_caller.hpp"
#include "troupe/runtime/program_assignment.hpp"
#include "troupe/runtime/replica_set.hpp"
#include "troupe/runtime/running_function.hpp"
#include "troupe/runtime/step_reductions.hpp"
#include "troupe/runtime/table_clients.hpp"
#include "troupe/runtime/task_requests.hpp"
#include "troupe/runtime/wait_cycles.hpp"
#include "troupe/runtime/whole_gradient.hpp"
#include "troupe/task.hpp"
#include "troupe/trainer.hpp"

namespace troupe::runtime {

class trainer_runtime;

/// Makes the calls of a trainer's function.
class trainer_caller final : public actor_caller<msg::full_trainer_actor::pointer> {
 public:
  explicit trainer_caller(trainer_runtime& of) : trainer_(of) {}
  outside_caller_handle& outside() { return outside_; }
  trainer_runtime* trainer() override { return &trainer_; }
  void callback_threw(const std::exception_ptr& thrown) override;

 private:
  trainer_runtime& trainer_;
  outside_caller_handle outside_;
};

class trainer_runtime final : public actors::trainer_body, waiting_trainer {
 public:
  using clock = std::chrono::steady_clock;

  trainer_runtime(actors::trainer_context actor, trainer_function function, const step_rules& rules);
  ~trainer_runtime() override { executor().end_stack(); }

  actors::actor_trace& trace;  ///< the actor's
  std::uint64_t& step;         ///< the actor's current step

  void set_peers(const actors::trainer_peers& all) override { communicator_.set_peers(rank(), all); }
  void begin(msg::train& order) override;
  void stop() override;
  void report(msg::actor_status& now) const override;
  void take(const msg::trainer_ended& word) override;
  void take(msg::collective_share&& share) override {
    executor().enter([&] { communicator_.take(share); });
  }
  void take(const msg::collective_sum& sum) override {
    executor().enter([&] { communicator_.take(sum); });
  }
  void take(msg::peer_tensor&& sent) override {
    executor().enter([&] { communicator_.take(sent); });
  }
  void take(const msg::peer_ended& word) override;
  void take(const msg::wait_probe& probe) override;
  void take(const msg::peer_optimizer& word) override;

  /// Handles an exception of a callback that the function gave to a future.
  void callback_threw(const std::exception_ptr& thrown);

  // -- for the objects that the function uses -------------------------------------------

  std::uint32_t rank() const { return actor_.rank; }
  std::uint32_t trainers() const { return assigned_.trainers; }
  std::uint64_t seed() const { return assigned_.seed; }
  const step_rules& rules() const { return assigned_.rules; }
  /// Counts this trainer's contexts.
  std::uint64_t begin_context();

  loop_places& loops() { return kept_.loops(); }
  /// Ends the function if this trainer stops alone. Call it between steps.
  void look_for_stop() const {
    if (stops_alone()) throw run_stopped();
  }
  /// The threads that make batches of its loops ahead, or null.
  std::shared_ptr<actors::batch_threads> batch_makers() const {
    return actors::batch_threads_of(actor_.self->system());
  }
  kept_state& kept() { return kept_; }
  trainer_caller& calls() { return calls_; }
  table_clients& tables() { return tables_; }
  step_reductions& reductions() { return reductions_; }

  std::shared_ptr<replica> make_replica(std::shared_ptr<const nn::module> module, const data_parallel_options& options);
  std::shared_ptr<pipeline_stage> make_stage(const std::vector<nn::sequential>& stages,
                                             const pipeline_options& options);
  /// `text`: the optimizer, as in messages to servers.
  void set_optimizer(const model::optimizer_spec& chosen, const std::string& text, const std::vector<trained>& members);
  /// Adds a loss to reports of progress.
  void note_loss(double value) {
    if (std::isfinite(value)) losses_.add(value, 1);
  }
  future<> take_step(tape& with, const std::vector<trained>& members, optimizer_text& text);
  /// The optimizer steps skipped for NaN or Inf.
  std::uint64_t skipped_steps() const { return whole_.skipped(); }
  /// Whether the last optimizer step was not awaited.
  bool has_open_step() const { return steps_.last && !steps_.last->was_awaited(); }
  /// Throws `error` if the last optimizer step was not awaited; `what`: the action that needs it.
  void check_step_awaited(std::string_view what) const;
  /// The runtime whose task runs on the calling thread. Throws `error` without one.
  static trainer_runtime& current();

  runtime::communicator& communicator() { return communicator_; }
  /// Returns the deadline of a collective.
  std::chrono::milliseconds deadline() const { return assigned_.deadline(); }

 private:
  /// The steps that the function has taken, and those of trainers that have ended.
  struct taken_steps {
    std::uint64_t done = 0;
    std::shared_ptr<const detail::future_state> last = nullptr;  ///< null before the first
    std::uint64_t contexts = 0;                                  ///< made for training
    std::vector<trained> members = {};                     ///< trained by the last step, where later ones may need them
    bool waits_for_all = false;                            ///< whether the last step waits for all trainers to take it
    std::map<std::uint32_t, std::uint64_t> of_ended = {};  ///< by rank
  };
  enum class phase : std::uint8_t { waiting, running, ending, over };

  static constexpr bool may_follow(phase from, phase to) {
    using enum phase;
    return to == over ? from != over : (from == waiting && to == running) || (from == running && to == ending);
  }
  void enter(phase next) {
    TROUPE_ASSERT(may_follow(phase_, next));
    phase_ = next;
  }
  void fail(std::uint64_t at_step, const caf::error& cause);
  void run_function();
  void ended(const std::exception_ptr& thrown);
  void returned();
  /// Whether this trainer must stop, and another one, which it may wait for, has already ended.
  bool waited_for_stopped() const { return votes_.own().stop && !steps_.of_ended.empty(); }
  void note_end(std::uint32_t rank, std::uint64_t steps);
  void deliver();
  void report();
  void check_peers() const;
  /// Whether all trainers take their steps together.
  bool is_synchronous() const { return tables_.any() || replicas_.is_in_step(); }
  /// Whether the run stops, and no common step of all trainers will show it.
  bool stops_alone() const { return votes_.own().stop && !schedule_.saves && !is_synchronous(); }
  void check_all_awaited() const;
  void check_same_members(const std::vector<trained>& members) const;
  future<> take_part(tape& with, const std::vector<trained>& members, bool ends);
  void finish_update(std::function<void()> then);
  void end_step(const std::shared_ptr<promise<>>& done);
  void leave_step(const std::shared_ptr<promise<>>& done);
  bool saves_now() const { return schedule_.saves_after(steps_.done, votes_.stops() || votes_.saves()); }
  void save(std::function<void()> then, std::function<void(const error&)> on_error);
  void finish();
  void resume();
  void check_loops(bool is_first_step);
  /// The function's current step: from the beginning of an iteration on it is the next one, which its optimizer step
  /// ends.
  std::uint64_t step_under_way() { return step == steps_.done && loops().is_before_step() ? step + 1 : step; }
  void vote_to_save();
  void look_for_cycles();
  std::optional<trainer_wait> waits_for_step() const;
  std::optional<trainer_wait> waits_now() const override;
  bool owes(const msg::peer_wait& theirs) const override;
  void send_probe(std::uint32_t to, std::uint64_t number, std::vector<msg::peer_wait> path) override {
    communicator_.send_probe(to, number, std::move(path));
  }
  void look_after(std::chrono::milliseconds delay) override;
  void waits_for_ever(const std::string& text) override;
  actor_executor& executor() const { return *requests_.executor(); }
  /// Whether passes of its replicas exchange numbers with other trainers.
  bool synchronizes() const { return assigned_.trainers > 1 && replicas_.synchronizes(); }
  /// The function's tasks need their own stack if passes wait.
  void choose_stack() { executor().use_own_stack(assigned_.trainers > 1 && replicas_.waits_in_passes()); }
  void with_all_parts(std::function<void()> then) {
    replicas_.collect_parts(communicator_, std::move(then), [this](const std::exception_ptr& why) { ended(why); });
  }

  trainer_caller calls_{*this};
  task_requests requests_;
  phase phase_ = phase::waiting;
  program_assignment assigned_;  ///< complete once the order is here
  actors::step_schedule schedule_;

  // Progress.
  kept_state kept_;
  actors::rank_checkpoint checkpoint_;
  actors::step_votes votes_;
  actors::progress_losses losses_{std::chrono::milliseconds(200)};
  taken_steps steps_;

  // The trained modules, and the other trainers.
  table_clients tables_{requests_, assigned_};
  runtime::communicator communicator_{actor_.self, trace, step};
  step_reductions reductions_{requests_, assigned_, communicator_, votes_};
  replica_set replicas_{actor_.rank, kept_};
  whole_gradient whole_{tables_, reductions_, replicas_, assigned_};
  std::optional<wait_cycles> cycles_;  ///< null if there are no other trainers, or no order yet
  running_function function_;          ///< destroyed first: it uses the others
};

/// Spawns trainer `rank` of run `run`, which runs `function`. `rules`: for the run's optimizer steps.
actors::made_trainer make_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank,
                                  std::uint32_t servers, trainer_function function, const step_rules& rules = {});

}  // namespace troupe::runtime
