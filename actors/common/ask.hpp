// How an actor sends a traced request and handles its answer.

#pragma once

#include <caf/actor_clock.hpp>
#include <caf/timespan.hpp>
#include <cstdint>
#include <string_view>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/inline_execution.hpp"
#include "protocol/header.hpp"
#include "protocol/message_types.hpp"

namespace troupe::actors {

struct question {
  std::uint32_t number = 0;               ///< the receiver's actor number
  caf::timespan timeout = caf::infinite;  ///< after this time the request fails
  std::uint16_t type = 0;                 ///< shown in traces; 0: the message's type
  bool survives_error = false;            ///< the actor continues after an error, which then counts as an answer
};

/// Returns the error for a message that the master or a server has not answered in time.
caf::error not_answered(const question& what, std::string_view message);

/// Sends a request of `self`, and calls `on_answer` with its answer, or `on_error`. `woken`: runs the actors that the
/// answer's handler wakes; null: workers do. Requires: `self`, `by` and `woken` outlive the answer.
template <class Answer, class Self, class Handle, class Message, class OnAnswer, class OnError>
void ask_traced(Self* self, actor_trace& by, inline_execution* woken, const Handle& receiver, const question& what,
                Message message, OnAnswer on_answer, OnError on_error) {
  const msg::message_id asked = msg::id_of(message.head);
  by.asks(message.head, what.type != 0 ? what.type : caf::type_id_v<Message>, what.number);
  self->request(receiver, what.timeout, std::move(message))
      .then(
          [self, &by, woken, asked, on_answer = std::move(on_answer)](Answer& answer) mutable {
            const inline_execution::scope here(woken, self);
            by.has_answer(asked);
            const actor_trace::handling scope(by, answer, trace::flag::answer);
            on_answer(answer);
          },
          [&by, asked, what, on_error = std::move(on_error)](caf::error& error) mutable {
            if (what.survives_error) by.has_answer(asked);
            if (error == caf::sec::request_timeout) error = not_answered(what, protocol::message_name_v<Message>);
            on_error(error);
          });
}

}  // namespace troupe::actors
