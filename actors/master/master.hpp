// The master runs a job on the members that have joined. It has the servers create the tables, passes their references
// to the trainers, forwards the trainers' reports, gathers the results, and ends everything after the last step or when
// any actor fails.
//
// The master sequences the run (`run_phase`); its parts do the work: members (`membership`), requests to them
// (`open_requests`), tables (`table_setup`), checkpoints (`checkpointing`), figures (`run_figures`), weights
// (`final_weights`), losses (`loss_response`), changes of the number of trainers (`trainer_changes`).

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "actors/master/checkpointing.hpp"
#include "actors/master/final_weights.hpp"
#include "actors/master/loss_response.hpp"
#include "actors/master/membership.hpp"
#include "actors/master/open_requests.hpp"
#include "actors/master/run_figures.hpp"
#include "actors/master/run_observer.hpp"
#include "actors/master/run_phase.hpp"
#include "actors/master/run_plan.hpp"
#include "actors/master/table_setup.hpp"
#include "actors/master/trainer_changes.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

struct status_round;

class master_state {
 public:
  using pointer = msg::master_actor::stateful_pointer<master_state>;

  explicit master_state(pointer self) : self_(self) {}

  static constexpr const char* name = "master";
  /// The newest step that a trainer has reported, or that was learned after a loss.
  std::uint64_t step = 0;
  actor_trace trace;

  /// `nodes`: members are in other processes; null: all are in this process, and present when the run is requested.
  void start(std::uint64_t run, run_observer observer, run_checkpoints checkpoints, std::optional<node_rules> nodes,
             planner plan);

  caf::result<msg::joined> handle(const msg::join_server& offer) { return join(offer, offer.server.address()); }
  caf::result<msg::joined> handle(const msg::join_trainer& offer) { return join(offer, offer.trainer.address()); }
  caf::result<msg::admitted> handle(const msg::join_node& offer);
  caf::result<msg::run_result> handle(const msg::run& order);
  void handle(const msg::stop& order);
  caf::result<void> handle(const msg::scale& order);

  void handle(const msg::progress& report);
  void handle(msg::epoch_report& report);
  void handle(msg::evaluation& share);
  caf::result<msg::committed> handle(msg::save_dense& share);

  void handle(const msg::node_lost& word);
  void handle(const msg::link_lost& word);
  void handle(const msg::give_up& word);

  caf::result<msg::run_status> handle(const msg::status& query);
  void handle(const msg::trouble& word);
  caf::result<msg::collected_evidence> handle(const msg::collect_evidence& query);
  void handle(const msg::verdict_found& found) { diagnosis_ = found.words; }

  /// Ends the run, if one is active, and its actors.
  void fail(const caf::error& error);

 private:
  void enter(run_phase next);
  template <class Offer>
  caf::result<msg::joined> join(const Offer& offer, const caf::actor_addr& who);
  caf::expected<msg::admitted> admit(const msg::join_node& offer);
  void act_on(const verdict& found);

  // The run's stages, in order.
  void wait_for_lost_members();
  void begin_if_complete();
  void connect_nodes();
  void connect_links();
  void make_tables();
  void start_training();
  void trainer_done(std::uint32_t rank, msg::trained&& result);
  void training_done();
  void collect();
  void deliver();
  void end(msg::run_result&& result);
  void end_members(bool done, const std::string& text, bool again);
  void pass_on(const std::vector<epoch_summary>& complete);

  // Losses, and late answers.
  template <class Answer, class Ask>
  void ask_nodes(std::chrono::seconds time, const std::string* except_session, const Ask& ask,
                 const std::function<void(Answer&)>& take, std::function<void()> then);
  void learn_step(const std::string& lost, std::function<void()> then);
  void fail_late(const caf::error& error);
  std::string late_text(const status_round& round, const std::string& said) const;

  // Status and diagnosis.
  using status_reader = std::function<void(const status_round& round)>;
  void ask_all_how_they_are(const msg::header& asked, status_reader then);
  template <class Handle>
  void ask_how_it_is(const std::shared_ptr<status_round>& round, const Handle& who, msg::actor_status& to);
  void report_status(status_round& round);
  std::vector<msg::wait_status> causes_of(const msg::wait_status& wait, const status_round& round) const;
  void add_own_waits(std::vector<msg::wait_status>& waits) const;

  pointer self_;
  run_observer observer_;
  run_phase phase_ = run_phase::unordered;
  planner planner_;
  run_plan plan_;
  caf::typed_response_promise<msg::run_result> promise_;  ///< pending until the run is over
  trainer_changes changes_;
  loss_response losses_;
  std::vector<std::pair<msg::join_node, caf::typed_response_promise<msg::admitted>>>
      early_;                             ///< came before the run was requested
  run_figures::clock::time_point began_;  ///< the beginning of the set-up, and then of the training

  membership members_;
  open_requests requests_{self_, trace, members_};
  table_setup tables_{requests_, trace};
  checkpointing checkpoints_{requests_, trace};
  run_figures figures_;
  final_weights weights_{requests_, trace};

  std::vector<status_reader> status_readers_;
  std::string diagnosis_;
};

/// The behavior of the master of run `run`; `plan` makes its plan when it is requested; `observer` is called on the
/// actor's thread. Spawn with this function.
msg::master_actor::behavior_type master(master_state::pointer self, std::uint64_t run, run_observer observer,
                                        run_checkpoints checkpoints, std::optional<node_rules> nodes, planner plan);

}  // namespace troupe::actors
