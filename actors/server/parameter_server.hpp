// The parameter server: it holds modules, answers lookups, and applies each optimizer step's gradients once, in rank
// order.
//
// An optimizer step consists of `accumulate` global steps; all messages name the global step. Gradients are collected
// in the context of their optimizer step; when every trainer's are complete, contexts are applied in order. A lookup is
// parked until it lacks at most as many optimizer steps as it allows, so no acknowledgement is needed. That also bounds
// the distance between trainers, and so the number of open contexts; messages for later steps are refused.
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
#include <span>
#include <string>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/writing_thread.hpp"
#include "actors/server/remote_module.hpp"
#include "actors/server/server_checkpoint.hpp"
#include "actors/server/step_contexts.hpp"
#include "actors/server/update_phase.hpp"
#include "base/assert.hpp"
#include "kernels/stream_timer.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The processes of a run's trainers, as a server of another process sees them.
struct trainer_origins {
  std::uint32_t servers = 0;               ///< of the run; the trainers' actor numbers follow from it
  std::vector<caf::actor_addr> of_rank{};  ///< the sender of messages from that trainer's process; empty: not checked
  /// The number of parts of a trainer's network; the first part has the rows: rank r is trainer number r x parts.
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
  /// A query for the state after optimizer step `updates`.
  struct parked_query {
    std::uint64_t updates = 0;
    std::function<void()> answer;
  };
  /// Requests that wait for optimizer steps.
  struct parked_requests {
    std::vector<parked_lookup> lookups;
    std::vector<parked_call> calls;
    std::vector<parked_query> queries;

    bool empty() const { return lookups.empty() && calls.empty() && queries.empty(); }
  };
  /// The tables' work on a device.
  struct device_work {
    std::deque<unfinished_step> unfinished;
    kernels::stream_timer* timer = nullptr;  ///< null: nothing is timed
    kernels::step_graphs* graphs = nullptr;  ///< null: the tables are on the processor
  };

  class host;

  caf::error expect(const step_contexts::rules& rules, std::uint64_t steps_done);
  void enter(update_phase next) {
    TROUPE_ASSERT(may_follow(phase_, next));
    phase_ = next;
  }

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
  caf::error commit();
  void deliver_committed(step_context& done);
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
  void begin_checkpoint(std::uint64_t update);
  void keep_state(std::uint64_t update);
  bool make_way();
  void proceed();
  void begin_save(const msg::save_module& order, std::uint64_t updates,
                  caf::typed_response_promise<msg::saved_module> promise);

  /// Starts the tables' work of this step, and records what the device has done.
  void work_on(std::uint64_t at_step) {
    if (device_.timer == nullptr) return;
    trace.note_device_work(*device_.timer);
    device_.timer->set_step(at_step);
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
  void report_missing(std::uint64_t update, msg::actor_status& now) const;
  void report_missing_async(msg::actor_status& now) const;

  pointer self_;
  std::uint64_t run_ = 0;
  std::uint32_t rank_ = 0;
  trainer_origins origins_;
  std::vector<msg::parameter_server_actor> servers_;  ///< by rank
  std::uint64_t next_module_ = 1;

  // Declared first: devices may still read the last steps' gradients, and the destructor of `modules_` waits for them.
  step_contexts contexts_;
  device_work device_;
  std::map<std::uint64_t, std::unique_ptr<remote_module>> modules_;  ///< 0: the server's own methods
  update_phase phase_ = update_phase::gathering;
  bool side_by_side_ = false;  ///< there are many collected gradients: modules work side by side
  parked_requests parked_;
  server_checkpoint checkpoint_;
  writing_thread writer_;
  std::unique_ptr<module_host> host_;
};

/// Sets the senders from which a server of this process accepts trainers' messages. Before that it accepts any, as a
/// run in one process needs. Thread: any.
void send_origins(const msg::parameter_server_actor& server, trainer_origins origins);

/// Gives a server the handles of all servers, including itself. Thread: any.
void send_to_servers(const msg::parameter_server_actor& server, std::vector<msg::parameter_server_actor> all);

/// The behavior of server `rank` in run `run`; spawn with this function.
msg::parameter_server_actor::behavior_type parameter_server(parameter_server_state::pointer self, std::uint64_t run,
                                                            std::uint32_t rank);

}  // namespace troupe::actors
