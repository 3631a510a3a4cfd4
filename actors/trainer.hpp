// The trainer's actor. Ordered to train, it leads a replica of the network (`training_loop`), or follows the trainer
// that leads it, with another part of the network (`part_follower`).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/inline_execution.hpp"
#include "actors/part_follower.hpp"
#include "actors/trainer_assignment.hpp"
#include "actors/trainer_maker.hpp"
#include "actors/training_loop.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

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
  void handle(const msg::stop&);
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
  caf::error begin(msg::train& order);
  caf::error lead(msg::train& order);
  caf::error follow(msg::train& order);
  void fail(std::uint64_t at_step, const caf::error& cause);
  void end(msg::trained&& result);
  void refuse_part_message() { fail(step, unexpected_part_message(name)); }
  msg::part_actor part_at(std::uint32_t rank) const;
  bool comes_from(std::uint32_t rank) const;
  bool comes_from_leader() const;
  bool comes_early(std::function<void()> handle_it);
  template <class Answer, class Query>
  caf::result<Answer> ask_follower(const Query& query);

  pointer self_;
  std::uint32_t rank_ = 0;     ///< in the run
  std::uint32_t servers_ = 0;  ///< of the run
  trainer_peers all_;          ///< the other trainers
  caf::typed_response_promise<msg::trained> promise_;
  bool stop_wanted_ = false;                    ///< it has been asked to stop, perhaps before the order to train
  bool is_over_ = false;                        ///< it is done, or has failed
  std::optional<trainer_assignment> assigned_;  ///< null: there has been no order
  std::vector<std::function<void()>> early_;    ///< what parts have sent before the order to train: handles it
  std::unique_ptr<inline_execution> woken_;     ///< runs the actors that this one wakes; null: workers do
  std::unique_ptr<training_loop> loop_;         ///< of a trainer that leads; else null
  std::unique_ptr<part_follower> follower_;     ///< of one that follows; else null
};

/// The behavior of trainer `rank` in run `run` with `servers` parameter servers; spawn with this function.
msg::program_trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                                  std::uint32_t servers);

/// Spawns the program's trainer (a `trainer_maker`), on the devices that the system is set to.
made_trainer program_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers);

}  // namespace troupe::actors
