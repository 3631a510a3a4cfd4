// The master: knows who has joined, makes the tables on the servers, hands their references to the trainers, follows
// the run, gathers its results, and ends everything: after the last step, or when any actor fails.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/run.hpp"
#include "actors/weights.hpp"
#include "model/job.hpp"
#include "protocol/errors.hpp"
#include "protocol/header.hpp"
#include "protocol/inspect.hpp"
#include "protocol/messages.hpp"

namespace troupe {

class master_state {
 public:
  using pointer = master_actor::stateful_pointer<master_state>;

  explicit master_state(pointer self) : self_(self) {}

  std::string name = "master";
  /// The newest step that a trainer has told of.
  std::uint64_t step = 0;

  void start(std::uint64_t run, run_observer observer, run_checkpoints checkpoints);

  caf::result<joined> handle(const join_server& offer);
  caf::result<joined> handle(const join_trainer& offer);
  caf::result<run_result> handle(const run& order);
  caf::result<run_status> handle(const status& query);
  void handle(const stop& order);
  void handle(const progress& report);
  void handle(epoch_report& report);
  void handle(evaluation& share);
  caf::result<committed> handle(save_dense& share);

  /// Ends the run, if one is under way, and its actors.
  void fail(const caf::error& error);

 private:
  using clock = std::chrono::steady_clock;

  struct member {
    caf::actor_addr address;
    std::string name;
  };

  void watch(const caf::actor_addr& address, std::string member_name);
  void member_down(const caf::down_msg& down);

  // A run, in order.
  caf::error set_up(const run& order);
  caf::error check_members() const;
  void make_tables();
  void load_tables();
  void start_training();
  void training_done();
  void collect_weights();
  void ask_for_digests();
  void deliver();

  // A checkpoint, in order.
  caf::error restore_position();
  void restore_tables();
  caf::expected<std::vector<tensor>> restore_dense() const;
  void save_beginning();
  void save();
  void part_saved();
  void saved(std::optional<fault> problem);
  std::vector<tensor_view> dense_views() const;
  checkpoint_manifest manifest() const;

  void gathered();
  void end_members();

  /// Sends a request of the run; when all of them are answered, `then` goes on. An error ends the run.
  template <class Answer, class Handle, class Message>
  void ask(const Handle& whom, Message&& message, std::function<void(Answer&)> on_answer, void (master_state::*then)());

  pointer self_;
  header_source headers_{0, 0};
  std::uint64_t run_ = 0;
  run_observer observer_;
  std::vector<parameter_server_actor> servers_;
  std::vector<trainer_actor> trainers_;
  allreduce_actor group_;
  std::vector<member> members_;

  job job_;
  std::shared_ptr<const dataset> data_;
  bool return_weights_ = false;
  std::uint64_t total_steps_ = 0;
  caf::typed_response_promise<run_result> promise_;
  std::string phase_ = "waiting for members";
  bool running_ = false;
  std::size_t pending_ = 0;
  message_id cause_ = 0;

  std::vector<std::vector<module_ref>> tables_;     // by table, then shard
  std::vector<std::vector<tensor>> table_weights_;  // by table, then shard; if asked for
  std::vector<trained> trained_;                    // by rank
  weights_digest digest_;
  std::map<std::uint64_t, epoch_gathering> gathering_;  // by epoch
  run_checkpoints checkpoints_;
  std::uint64_t steps_done_ = 0;  ///< by the run that this one goes on with
  std::vector<trainer_position> positions_;

  /// A trainer that stands still while a checkpoint is taken.
  struct waiting_trainer {
    save_dense share;
    caf::typed_response_promise<committed> promise;
  };
  std::vector<std::optional<waiting_trainer>> waiting_;  // by rank
  std::vector<saved_file> saved_files_;
  std::size_t saves_pending_ = 0;
  std::optional<fault> save_problem_;
  clock::time_point save_begin_;

  clock::time_point begin_;
  double setup_seconds_ = 0;
  run_summary summary_;
  std::uint64_t staleness_sum_ = 0;
  std::uint64_t lookups_ = 0;
};

template <class Answer, class Handle, class Message>
void master_state::ask(const Handle& whom, Message&& message, std::function<void(Answer&)> on_answer,
                       void (master_state::*then)()) {
  ++pending_;
  self_->request(whom, caf::infinite, std::forward<Message>(message))
      .then(
          [this, on_answer = std::move(on_answer), then](Answer& answer) {
            if (!running_) return;
            on_answer(answer);
            if (--pending_ == 0) (this->*then)();
          },
          [this](const caf::error& error) {
            // A receiver that has gone says why by its own death.
            if (!is_secondary(error)) fail(error);
          });
}

/// The behavior of the master of run `run`; `observer` is called on the actor's thread. Spawn with this function.
master_actor::behavior_type master(master_state::pointer self, std::uint64_t run, run_observer observer,
                                   run_checkpoints checkpoints);

}  // namespace troupe
