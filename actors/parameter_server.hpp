// The parameter server: holds modules, answers lookups, and applies each optimizer step's gradients once, in rank
// order.
//
// An optimizer step takes `accumulate` global steps; all messages name the global step. Gradients are collected in the
// context of their optimizer step; when every trainer's are complete, contexts are applied in order. A lookup is parked
// until at most as many optimizer steps before it are missing as it allows, so no acknowledgement is needed. That also
// bounds how far apart trainers can be, and so the number of open contexts; messages beyond are refused.
//
// In a run over several processes, a trainer's messages are accepted from its own process only (`trainer_origins`).
//
// Consistency async: each trainer's gradients are applied when they arrive, as an optimizer step of their own.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/failure.hpp"
#include "actors/remote_module.hpp"
#include "actors/writing_thread.hpp"
#include "kernels/stream_timer.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The processes of a run's trainers, as a server of another process sees them.
struct trainer_origins {
  std::uint32_t servers = 0;               ///< of the run; the trainers' actor numbers follow from it
  std::vector<caf::actor_addr> of_rank{};  ///< the sender of messages from that trainer's process; empty: not checked
  /// The parts of the trainers' networks, whose first ones have the rows: the trainer of rank r is number r x parts.
  std::uint32_t parts = 1;
};

class parameter_server_state {
 public:
  using pointer = msg::parameter_server_actor::stateful_pointer<parameter_server_state>;

  explicit parameter_server_state(pointer self) : self_(self) {}

  /// For error lines: the actor's name, and the last global step whose gradients have been applied.
  std::string name;
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, std::uint32_t rank);
  void trainers_come_from(trainer_origins origins) { origins_ = std::move(origins); }
  void servers_are(std::vector<msg::parameter_server_actor> all) { servers_ = std::move(all); }

  caf::result<msg::module_ref> handle(msg::instantiate& order);
  caf::result<msg::rows> handle(msg::lookup& wanted);
  caf::result<void> handle(msg::gradient& grads);
  caf::result<msg::squared_norm> handle(const msg::gradient_norm& query);
  caf::result<msg::committed> handle(const msg::optimizer_step& order);
  caf::result<msg::parameter_list> handle(const msg::parameters& query);
  caf::result<msg::module_state> handle(const msg::state_dict& query);
  caf::result<msg::committed> handle(const msg::load_state_dict& order);
  caf::result<msg::tensor> handle(const msg::row_digests& query);
  caf::result<msg::saved_module> handle(const msg::save_module& order);
  caf::result<msg::committed> handle(const msg::restore_module& order);
  caf::result<void> handle(const msg::release& order);
  caf::result<void> handle(const msg::set_optimizer& order);
  caf::result<msg::returned> handle(msg::call& what);
  caf::result<msg::actor_status> handle(const msg::actor_query& query);

 private:
  /// What one trainer has contributed to an optimizer step.
  struct contribution {
    std::vector<msg::gradient> parts;
    bool wants_norm = false;  // no gradient can be added any more
    bool complete = false;
  };

  /// What a trainer orders for the optimizer step that its messages complete.
  struct step_order {
    bool apply = true;
    float factor = 1;
    bool operator==(const step_order&) const = default;
  };

  /// The gradients of one optimizer step.
  struct context {
    std::vector<contribution> ranks;
    std::uint32_t complete = 0;
    std::uint64_t last_step = 0;
    bool keeps = false;  ///< a checkpoint is taken of the state before it
    step_order order;
    std::vector<std::pair<msg::header, caf::typed_response_promise<msg::committed>>> waiting;
    std::vector<std::pair<msg::header, caf::typed_response_promise<msg::squared_norm>>> norm_waiting;
  };

  /// An optimizer step that is under way on devices, and the gradients that they may still read.
  struct unfinished_step {
    std::uint64_t last_step = 0;
    std::vector<msg::gradient> in_use;
  };

  struct parked_lookup {
    msg::lookup wanted;
    caf::typed_response_promise<msg::rows> promise;
  };

  struct parked_call {
    msg::call what;
    caf::typed_response_promise<msg::returned> promise;
  };

  class host;

  /// A query for the state after optimizer step `updates`, which waits for that step.
  struct parked_query {
    std::uint64_t updates = 0;
    std::function<void()> answer;
  };

  caf::error expect(std::uint32_t trainers, std::uint32_t accumulate, std::uint32_t staleness,
                    std::uint64_t steps_done);
  bool is_async() const { return staleness_ == model::any_staleness; }
  /// Returns the optimizer step of global step `at_step`, from 1.
  std::uint64_t update_of(std::uint64_t at_step) const { return (at_step - 1) / accumulate_ + 1; }
  context& context_of(std::uint64_t update) { return contexts_[update % contexts_.size()]; }
  std::uint64_t updates_of_all() const;
  std::uint64_t missing(const msg::header& head) const;

  caf::error check_run(const msg::header& head) const;
  caf::error check_context(const msg::header& head) const;
  caf::error check_origin(const msg::header& head, const char* what) const;
  caf::error check_speaker(const msg::header& head, std::uint32_t rank, const char* what) const;
  bool is_repeated(const msg::gradient& grads) const;
  caf::error check_rank(const msg::header& head, std::uint32_t rank, const char* what);
  caf::error check_open(const msg::header& head, std::uint32_t rank, const char* what);
  caf::expected<remote_module*> find(const msg::header& head, std::uint64_t module) const;
  caf::expected<msg::rows> answer(const msg::lookup& wanted);
  caf::expected<msg::rows> pool(const msg::lookup& wanted);
  caf::error accept(const msg::gradient& grads);
  caf::error complete(const msg::header& head, std::uint32_t rank, step_order order);
  caf::error commit_complete();
  caf::error commit(std::uint64_t update);
  void deliver_committed(context& done);
  caf::error apply_rank(std::uint64_t update, std::uint32_t rank);
  static contributors contributors_to(std::span<const contribution> ranks);
  bool is_much(std::span<const contribution> ranks) const;
  caf::error collect(std::span<const contribution> ranks, contributors from);
  caf::error apply(std::uint64_t update, step_order order);
  caf::error finish_steps(std::size_t but_last = 0);
  void drop_gradients(contribution& rank);
  caf::error answer_norms();
  void release_parked();
  void release_parked_calls();

  // Checkpoints.
  void begin_keeping(std::uint64_t update);
  void keep_state(std::uint64_t update);
  bool make_way();
  void go_on();
  void begin_save(const msg::save_module& order, std::uint64_t updates,
                  caf::typed_response_promise<msg::saved_module> promise);

  /// The tables' work from now on is of this step. Records what the device has done.
  void work_on(std::uint64_t at_step) {
    if (timer_ == nullptr) return;
    trace.note_device_work(*timer_);
    timer_->set_step(at_step);
  }
  module_host& as_host();
  caf::expected<std::unique_ptr<remote_module>> make(const msg::instantiate& order);
  remote_module* called_module(std::uint64_t module);
  void dispatch(parked_call& one);
  template <class Answer, class Query, class Make>
  caf::result<Answer> after_step(const Query& query, Make make);
  caf::error refusal(const caf::error& cause) const { return failure_of(name, step + 1, cause); }
  template <class... Args>
  caf::error refusal(errc code, fmt::format_string<Args...> text, Args&&... args) const {
    return refusal(make_failure(code, fmt::format(text, std::forward<Args>(args)...)));
  }
  std::string trainer_name(std::uint32_t rank) const;
  void tell_missing(std::uint64_t update, msg::actor_status& now) const;
  void tell_missing_async(msg::actor_status& now) const;

  pointer self_;
  std::uint64_t run_ = 0;
  std::uint32_t rank_ = 0;
  std::uint32_t trainers_ = 0;
  std::uint32_t accumulate_ = 1;
  std::uint32_t staleness_ = 0;
  std::uint64_t next_module_ = 1;
  // Of optimizer steps to come, and of the last ones as long as devices may read them; modules_ waits for these.
  std::vector<context> contexts_{2};
  std::deque<unfinished_step> unfinished_;
  std::map<std::uint64_t, std::unique_ptr<remote_module>> modules_;  // 0: what the server offers itself
  std::uint64_t committed_ = 0;                                      // optimizer steps applied
  bool collected_ = false;                                           // the modules hold the gradients of the next one
  bool side_by_side_ = false;                                        // these are many: modules work side by side
  std::vector<std::uint64_t> last_update_;                           // by rank, async: the last optimizer step applied
  std::vector<std::uint64_t> last_sequence_;  // by rank: of its last gradient, to ignore a repeated one
  std::vector<parked_lookup> parked_;
  std::vector<parked_call> parked_calls_;
  std::vector<parked_query> parked_queries_;
  trainer_origins origins_;
  std::vector<msg::parameter_server_actor> servers_;  // by rank
  std::uint64_t checkpoint_memory_ = msg::any_memory;
  std::shared_ptr<model::memory_allowance> allowance_;  ///< of the last checkpoint
  std::optional<std::uint64_t> kept_update_;            ///< the optimizer step of its state
  std::set<std::uint64_t> kept_;                        ///< modules that keep that state until it is to be written
  std::set<std::uint64_t> begun_;                       ///< those of which it has begun to be written
  std::size_t writing_ = 0;                             ///< those that are being written
  bool is_held_up_ = false;  ///< the next optimizer step is complete, and waits for the checkpoint's memory
  writing_thread writer_;
  kernels::stream_timer* timer_ = nullptr;  ///< of the tables on a device; null: nothing is timed
  kernels::step_graphs* graphs_ = nullptr;  ///< of that device; null: they are on the processor
  std::unique_ptr<module_host> host_;
};

/// Sets the senders that a server of this process accepts trainers' messages from. Before that it accepts any, as a run
/// in one process needs. Thread: any.
void tell_origins(const msg::parameter_server_actor& server, trainer_origins origins);

/// Tells a server how it reaches the others, and itself. Thread: any.
void tell_servers(const msg::parameter_server_actor& server, std::vector<msg::parameter_server_actor> all);

/// The behavior of server `rank` in run `run`; spawn with this function.
msg::parameter_server_actor::behavior_type parameter_server(parameter_server_state::pointer self, std::uint64_t run,
                                                            std::uint32_t rank);

}  // namespace troupe::actors
