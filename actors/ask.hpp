// How an actor sends a traced request and handles its answer.

#pragma once

#include <caf/actor_clock.hpp>
#include <cstdint>
#include <utility>

#include "actors/actor_trace.hpp"
#include "actors/inline_execution.hpp"
#include "protocol/header.hpp"

namespace troupe::actors {

/// Sends a request of `self` to actor `number`, and calls `on_answer` with its answer, or `on_error`. `woken`: runs the
/// actors that the answer's handler wakes; null: workers do. Requires: `self` and all arguments outlive the answer.
template <class Answer, class Self, class Handle, class Message, class OnAnswer, class OnError>
void ask_traced(Self* self, actor_trace& by, inline_execution* woken, const Handle& whom, std::uint32_t number,
                Message message, OnAnswer on_answer, OnError on_error) {
  const msg::message_id asked = msg::id_of(message.head);
  by.asks(message.head, caf::type_id_v<Message>, number);
  self->request(whom, caf::infinite, std::move(message))
      .then(
          [self, &by, woken, asked, on_answer = std::move(on_answer)](Answer& answer) {
            const inline_execution::scope here(woken, self);
            by.has_answer(asked);
            const actor_trace::handling scope(by, answer, trace::flag::answer);
            on_answer(answer);
          },
          std::move(on_error));
}

}  // namespace troupe::actors
