// The master: knows who has joined, makes the tables on the servers, hands their references to the trainers, follows
// the run, gathers its results, and ends everything: after the last step, or when any actor fails.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/metrics.hpp"
#include "actors/run.hpp"
#include "actors/weights.hpp"
#include "model/job.hpp"
#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"

namespace troupe {

/// How a master deals with members in other processes.
struct node_rules {
  /// For the answer to a message that is answered at once or after a limited piece of work.
  std::chrono::milliseconds request_timeout{300'000};
  /// What to run to go on from the last checkpoint, in words; told when a process has died.
  std::string resume;
  /// The run has started its members itself, each with a rank: nobody else may take a place.
  bool own_members = false;
  /// The fingerprint of the certificate that a control connection has shown, by its session; empty: none. May be null:
  /// no connection has one.
  std::function<std::string(const std::string& session)> certificate_of = {};
};

class master_state {
 public:
  using pointer = master_actor::stateful_pointer<master_state>;

  explicit master_state(pointer self) : self_(self) {}

  std::string name = "master";
  /// The newest step that a trainer has told of.
  std::uint64_t step = 0;
  actor_trace trace;

  /// `nodes`: members come from other processes. Null: they are in this one, and all there when the run is asked for.
  void start(std::uint64_t run, run_observer observer, run_checkpoints checkpoints, std::optional<node_rules> nodes);

  caf::result<joined> handle(const join_server& offer);
  caf::result<joined> handle(const join_trainer& offer);
  caf::result<run_result> handle(const run& order);
  caf::result<run_status> handle(const status& query);
  void handle(const stop& order);
  void handle(const progress& report);
  void handle(epoch_report& report);
  void handle(evaluation& share);
  caf::result<committed> handle(save_dense& share);
  caf::result<admitted> handle(const join_node& offer);
  void handle(const node_lost& word);
  void handle(const link_lost& word);
  void handle(const give_up& word);
  void handle(const trouble& word);
  caf::result<collected_evidence> handle(const collect_evidence& query);
  void handle(const verdict_found& found) { diagnosis_ = found.words; }

  /// Ends the run, if one is under way, and its actors.
  void fail(const caf::error& error);

 private:
  using clock = std::chrono::steady_clock;

  struct member {
    caf::actor_addr address;
    std::string name;
  };

  /// A process of the run.
  struct node {
    peer_node what;
    std::string user_name;
    std::string host;
    std::uint64_t pid = 0;
    std::string session;
    node_actor handle;
    connected links;
  };

  void watch(const caf::actor_addr& address, std::string member_name);
  void member_down(const caf::down_msg& down);
  std::string member_name(bool trains, std::uint32_t rank) const;
  caf::expected<std::vector<std::uint32_t>> free_ranks(const join_node& offer) const;
  caf::expected<std::vector<std::uint32_t>> check_offer(const join_node& offer) const;
  caf::error check_place(bool trains, std::uint32_t rank) const;
  const node* node_of(bool trains, std::uint32_t rank) const;
  caf::expected<admitted> admit(const join_node& offer);
  void admit_early();
  void leave(std::uint32_t number, const std::string& why);
  void node_down(const caf::actor_addr& source);
  void member_joined();
  bool all_here() const;
  void note(const std::string& line) const;
  void fail_later(const std::string& words);
  std::string with_advice(const std::string& words) const;
  void tell_nodes(bool done, const std::string& words);

  // A run, in order.
  caf::error set_up(const run& order);
  caf::error check_members() const;
  void begin();
  void connect_nodes();
  void connect_links();
  std::string folder_to_try();
  caf::error check_links(const node& one) const;
  void make_tables();
  void load_tables();
  std::vector<std::vector<module_ref>> tables_for(std::uint32_t trainer) const;
  allreduce_actor group_for(std::uint32_t trainer) const;
  std::uint32_t group_number_for(std::uint32_t trainer) const;
  void start_training();
  void training_done();
  void collect_weights();
  void ask_for_digests();
  void deliver();
  void deliver(run_result&& result);

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

  /// With the answer to a message.
  caf::timespan patience() const { return rules_ ? caf::timespan(rules_->request_timeout) : caf::infinite; }
  caf::error unanswered(const caf::actor_addr& by, std::string_view question) const;
  std::string who_is(const caf::actor_addr& address) const;

  // What is told to those who ask.
  struct status_round;
  template <class Handle>
  void ask_how_it_is(const std::shared_ptr<status_round>& round, const Handle& who, actor_status& to);
  void tell_status(status_round& round);
  std::vector<wait_status> causes_of(const wait_status& wait, const status_round& round) const;
  void add_own_waits(std::vector<wait_status>& waits) const;

  void gathered();
  void note_metrics(const epoch_summary& epoch);
  void end_members();
  std::uint32_t number_of(const caf::actor_addr& address) const;

  /// Sends a request of the run; when all of them are answered, `then` goes on. An error ends the run.
  template <class Answer, class Handle, class Message>
  void ask(const Handle& whom, Message&& message, std::function<void(Answer&)> on_answer, void (master_state::*then)());

  pointer self_;
  std::uint64_t run_ = 0;
  run_observer observer_;
  std::vector<parameter_server_actor> servers_;
  std::vector<trainer_actor> trainers_;
  allreduce_actor group_;
  std::vector<member> members_;
  std::optional<node_rules> rules_;
  std::map<std::uint32_t, node> nodes_;
  std::uint32_t next_node_ = 0;
  std::vector<std::pair<join_node, caf::typed_response_promise<admitted>>> early_;  ///< came before the order
  std::map<std::pair<bool, std::uint32_t>, std::uint32_t> incarnations_;  ///< of each place, by (trains, rank)

  job job_;
  std::shared_ptr<const dataset> data_;
  bool return_weights_ = false;
  std::uint64_t total_steps_ = 0;
  caf::typed_response_promise<run_result> promise_;
  std::string phase_ = "waiting for members";
  bool ordered_ = false;     ///< the run has been asked for
  bool running_ = false;     ///< and has begun
  bool stop_early_ = false;  ///< was wished before the order came
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
  std::multiset<std::uint32_t> saving_servers_;  ///< the rank for each shard that is not written yet
  std::optional<fault> save_problem_;
  clock::time_point save_begin_;

  clock::time_point begin_;
  double setup_seconds_ = 0;
  run_summary summary_;
  std::uint64_t staleness_sum_ = 0;
  std::uint64_t lookups_ = 0;

  /// A message of the run that is not answered yet.
  struct open_question {
    caf::actor_addr whom;
    caf::type_id_t type = 0;
  };
  std::map<std::uint64_t, open_question> questions_;
  std::uint64_t next_question_ = 0;
  struct rates {
    double samples_per_s = 0;
    double steps_per_s = 0;
    clock::time_point at;
  };
  std::optional<rates> last_progress_;
  std::vector<caf::typed_response_promise<run_status>> status_askers_;
  std::string diagnosis_;
};

template <class Answer, class Handle, class Message>
void master_state::ask(const Handle& whom, Message&& message, std::function<void(Answer&)> on_answer,
                       void (master_state::*then)()) {
  ++pending_;
  // The answer to `train` is the run; whoever has it is known to be alive by other means.
  constexpr bool is_limited = !std::is_same_v<std::remove_cvref_t<Message>, train>;
  const std::uint64_t number = next_question_++;
  if constexpr (is_limited) questions_[number] = {whom.address(), caf::type_id_v<std::remove_cvref_t<Message>>};
  const message_id asked = id_of(message.head);
  trace.asks(message.head, caf::type_id_v<std::remove_cvref_t<Message>>, number_of(whom.address()));
  self_->request(whom, is_limited ? patience() : caf::infinite, std::forward<Message>(message))
      .then(
          [this, number, asked, on_answer = std::move(on_answer), then](Answer& answer) {
            questions_.erase(number);
            trace.has_answer(asked);
            if (!running_) return;
            std::optional<actor_trace::handling> scope;
            if constexpr (requires { answer.head; }) scope.emplace(trace, answer, trace::flag::answer);
            on_answer(answer);
            if (--pending_ == 0 && running_) (this->*then)();  // the answer may have ended the run
          },
          [this, address = whom.address()](const caf::error& error) {
            if (error == caf::sec::request_timeout)
              return fail(unanswered(address, message_name_v<std::remove_cvref_t<Message>>));
            if (!is_secondary(error)) return fail(error);
            // A receiver that has gone says why by its own death; one that has lost another may be all that we hear of.
            if (error == errc::peer_failed) fail_later(describe(error));
          });
}

/// The behavior of the master of run `run`; `observer` is called on the actor's thread. Spawn with this function.
master_actor::behavior_type master(master_state::pointer self, std::uint64_t run, run_observer observer,
                                   run_checkpoints checkpoints, std::optional<node_rules> nodes);

}  // namespace troupe
