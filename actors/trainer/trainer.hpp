// A trainer's actor: it receives the messages, and its body handles them: a job's steps, or a user's function.
//
//   waiting ──▶ training ──▶ over          waiting ──▶ over
//
//   | from              | to       | when                                              |
//   |-------------------|----------|---------------------------------------------------|
//   | waiting           | training | the order to train comes                          |
//   | waiting, training | over     | the body has failed                               |
//   | training          | over     | the body has given the answer to the order        |

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/trainer/trainer_body.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "base/assert.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

class trainer_state {
 public:
  using pointer = msg::full_trainer_actor::stateful_pointer<trainer_state>;

  explicit trainer_state(pointer self) : self_(self) {}

  /// For error lines: the actor's name, and the current step.
  std::string name;
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers, const body_maker& make);
  void set_peers(const trainer_peers& peers) { body_->set_peers(peers); }

  caf::result<msg::trained> handle(msg::train& order);
  caf::result<msg::actor_status> handle(const msg::actor_query& query);
  void handle(const msg::stop& /*order*/) { body_->stop(); }
  void handle(const msg::trainer_ended& word) { body_->take(word); }
  // Messages of other trainers.
  void handle(msg::activation& input) { body_->take(std::move(input)); }
  void handle(msg::activation_gradient& grad) { body_->take(std::move(grad)); }
  void handle(msg::part_outputs& outputs) { body_->take(std::move(outputs)); }
  void handle(msg::partial_sum& share) { body_->take(std::move(share)); }
  caf::result<msg::part_state> handle(const msg::part_query& query) { return answer_later<msg::part_state>(query); }
  caf::result<msg::squared_norm> handle(const msg::gradient_norm& query) {
    return answer_later<msg::squared_norm>(query);
  }
  caf::result<msg::committed> handle(const msg::optimizer_step& order) { return body_->answer(order); }
  void handle(msg::collective_share& share) { body_->take(std::move(share)); }
  void handle(const msg::collective_sum& sum) { body_->take(sum); }
  void handle(msg::peer_tensor& sent) { body_->take(std::move(sent)); }
  void handle(const msg::peer_ended& word) { body_->take(word); }
  void handle(const msg::wait_probe& probe) { body_->take(probe); }
  void handle(const msg::peer_optimizer& word) { body_->take(word); }

 private:
  enum class phase : std::uint8_t { waiting, training, over };

  static constexpr bool may_follow(phase from, phase to) { return to > from; }
  void enter(phase next) {
    TROUPE_ASSERT(may_follow(phase_, next));
    phase_ = next;
  }
  template <class Answer, class Query>
  caf::result<Answer> answer_later(const Query& query) {
    if (auto error = body_->check_asker()) return error;
    auto promise = self_->make_response_promise<Answer>();
    body_->answer(query, promise);
    return promise;
  }
  void fail(const caf::error& cause);
  void deliver(msg::trained&& result);

  pointer self_;
  phase phase_ = phase::waiting;
  caf::typed_response_promise<msg::trained> promise_;
  std::unique_ptr<inline_execution> woken_;  ///< runs the actors that this one wakes; null: the workers do
  std::unique_ptr<trainer_body> body_;
};

/// Spawns trainer `rank` of run `run` (see `trainer_maker`), on the devices in the system's settings.
made_trainer spawn_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers,
                           const body_maker& make);

/// The behavior of trainer `rank` in run `run` with `servers` parameter servers, and the body that `make` makes.
msg::full_trainer_actor::behavior_type trainer_with(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                                    std::uint32_t servers, const body_maker& make);

}  // namespace troupe::actors
