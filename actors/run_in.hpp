// Does something as an actor: between two of its messages, on whatever thread runs it then.

#pragma once

#include <caf/action.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/message.hpp>
#include <utility>

namespace troupe::actors {

/// `what` is called without arguments, or never if the actor has ended. `context`: of the calling actor, if any. From
/// any thread.
template <class F>
void run_in(const caf::strong_actor_ptr& actor, F&& what, caf::execution_unit* context = nullptr) {
  actor->enqueue(nullptr, caf::make_message_id(), caf::make_message(caf::make_action(std::forward<F>(what))), context);
}

}  // namespace troupe::actors
