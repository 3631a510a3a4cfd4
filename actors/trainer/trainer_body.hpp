// The body of a trainer's actor: the steps of a job, a part of its network, or a user's function. The actor receives
// the messages (`trainer_state`); its body handles them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/common/ask.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The members of the trainer's actor that a body uses. The actor outlives the body.
struct trainer_context {
  msg::full_trainer_actor::pointer self;
  const std::string& name;
  actor_trace& trace;
  std::uint64_t& step;      ///< the current step, for error lines
  inline_execution* woken;  ///< runs the actors that this one wakes; null: the workers do
  std::uint32_t rank;       ///< in the run
  std::uint32_t servers;    ///< of the run
  /// Ends the actor, and with it the run. Only the first call of `fail` or `done` counts.
  std::function<void(const caf::error& cause)> fail;
  /// Answers the order to train.
  std::function<void(msg::trained&& result)> done;

  /// Returns the error for another trainer's message that this one does not expect.
  caf::error refusal() const {
    return make_failure(errc::wrong_context, "a message of another trainer for {}, which expects none", name);
  }
  /// See `ask_traced`.
  template <class Answer, class Handle, class Message, class OnAnswer, class OnError>
  void ask(const Handle& receiver, const question& what, Message message, OnAnswer on_answer, OnError on_error) const {
    ask_traced<Answer>(self, trace, woken, receiver, what, std::move(message), std::move(on_answer),
                       std::move(on_error));
  }
};

/// Belongs to the trainer's actor.
class trainer_body {
 public:
  explicit trainer_body(trainer_context actor) : actor_(std::move(actor)) {}
  virtual ~trainer_body() = default;
  trainer_body(const trainer_body&) = delete;
  trainer_body& operator=(const trainer_body&) = delete;

  /// `all`: the other trainers. Called before `begin`.
  virtual void set_peers(const trainer_peers& /*all*/) {}
  /// The order to train has come. Called once.
  virtual void begin(msg::train& order) = 0;
  /// The run must stop. May be called before `begin`.
  virtual void stop() = 0;
  /// Another trainer does no more steps. Matters if trainers decide on their number of steps.
  virtual void take(const msg::trainer_ended& /*word*/) {}
  /// Adds its phase, waits and queues.
  virtual void report(msg::actor_status& now) const = 0;

  // From trainers with other parts of its network; perhaps before `begin`. A trainer that expects none fails.
  virtual void take(msg::activation&& /*input*/) { refuse(); }
  virtual void take(msg::activation_gradient&& /*grad*/) { refuse(); }
  virtual void take(msg::part_outputs&& /*outputs*/) { refuse(); }
  virtual void take(msg::partial_sum&& /*share*/) { refuse(); }
  /// Checks whether the sender of the current message may send the next two queries. Called before there is a promise,
  /// since the sender is unknown after that.
  virtual caf::error check_asker() const { return {}; }
  virtual void answer(const msg::part_query& /*query*/, caf::typed_response_promise<msg::part_state> promise) {
    promise.deliver(refusal());
  }
  virtual void answer(const msg::gradient_norm& /*query*/, caf::typed_response_promise<msg::squared_norm> promise) {
    promise.deliver(refusal());
  }
  virtual caf::result<msg::committed> answer(const msg::optimizer_step& /*order*/) { return refusal(); }

  // From the other trainers of a user's program; perhaps before `begin`. A trainer that expects none fails.
  virtual void take(msg::collective_share&& /*share*/) { refuse(); }
  virtual void take(const msg::collective_sum& /*sum*/) { refuse(); }
  virtual void take(msg::peer_tensor&& /*sent*/) { refuse(); }
  virtual void take(const msg::peer_ended& /*word*/) { refuse(); }
  virtual void take(const msg::wait_probe& /*probe*/) { refuse(); }
  virtual void take(const msg::peer_optimizer& /*word*/) { refuse(); }

 protected:
  caf::error refusal() const { return actor_.refusal(); }
  /// Fails with `refusal`.
  void refuse() const { actor_.fail(failure_of(actor_.name, actor_.step, refusal())); }

  const trainer_context actor_;
};

/// Makes the body of a trainer.
using body_maker = std::function<std::unique_ptr<trainer_body>(trainer_context actor)>;

}  // namespace troupe::actors
