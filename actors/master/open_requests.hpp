// The master's open requests to members: a phase sends a number of requests, and continues when all are answered.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/master/membership.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the actor `self`, and cannot be used after it has ended.
class open_requests {
 public:
  struct question {
    caf::actor_addr receiver;
    caf::type_id_t type = 0;
  };

  /// Called when `receiver` answers a request of type `type` with an error, with an invalid answer, or not at all.
  using complaint =
      std::function<void(const caf::error& error, const caf::actor_addr& receiver, caf::string_view type)>;

  open_requests(msg::master_actor::pointer self, actor_trace& trace, const membership& members)
      : self_(self), trace_(trace), members_(members) {}

  void start(complaint on_error) { on_error_ = std::move(on_error); }
  /// The run is over: further answers are ignored.
  void close() { is_closed_ = true; }

  /// Sends a request to `receiver`, which answers with an `Answer`. `on_answer` may return a caf::error if the answer
  /// is invalid. Calls `then` after the last open request.
  template <class Answer, class Handle, class Message, class OnAnswer>
  void ask(const Handle& receiver, Message message, OnAnswer on_answer, std::function<void()> then) {
    ++pending_;
    // The answer to `train` takes the whole run, so it has no timeout; other messages show that the trainer is alive.
    constexpr bool is_limited = !std::is_same_v<Message, msg::train>;
    const std::uint64_t number = next_question_++;
    const caf::actor_addr address = receiver.address();
    if constexpr (is_limited) questions_[number] = {address, caf::type_id_v<Message>};
    const auto complain = [this, address](const caf::error& error) {
      on_error_(error, address, caf::type_name_v<Message>);
    };
    send<Answer>(
        receiver, members_.number_of(address), is_limited ? timeout() : caf::infinite, std::move(message),
        [this, number, complain, on_answer = std::move(on_answer), then = std::move(then)](Answer& answer) mutable {
          questions_.erase(number);
          if constexpr (std::is_same_v<std::invoke_result_t<OnAnswer&, Answer&>, caf::error>) {
            if (const caf::error wrong = on_answer(answer)) return complain(wrong);
          } else {
            on_answer(answer);
          }
          if (--pending_ == 0 && !is_closed_) then();  // the answer may have ended the run
        },
        complain);
  }

  /// Sends a request that no phase waits for; `number`: the actor number of `receiver`.
  template <class Answer, class Handle, class Message, class OnAnswer, class OnError>
  void ask_aside(const Handle& receiver, std::uint32_t number, Message message, OnAnswer on_answer, OnError on_error) {
    send<Answer>(receiver, number, timeout(), std::move(message), std::move(on_answer), std::move(on_error));
  }

  msg::master_actor::pointer self() const { return self_; }
  bool none_open() const { return pending_ == 0; }
  /// The open requests with a timeout, in the order in which they were sent.
  const std::map<std::uint64_t, question>& questions() const { return questions_; }

 private:
  template <class Answer, class Handle, class Message, class OnAnswer, class OnError>
  void send(const Handle& receiver, std::uint32_t number, caf::timespan timeout, Message message, OnAnswer on_answer,
            OnError on_error) {
    const msg::message_id asked = msg::id_of(message.head);
    trace_.asks(message.head, caf::type_id_v<Message>, number);
    self_->request(receiver, timeout, std::move(message))
        .then(
            [this, asked, on_answer = std::move(on_answer)](Answer& answer) mutable {
              trace_.has_answer(asked);
              if (is_closed_) return;
              std::optional<actor_trace::handling> scope;
              if constexpr (requires { answer.head; }) scope.emplace(trace_, answer, trace::flag::answer);
              on_answer(answer);
            },
            std::move(on_error));
  }

  caf::timespan timeout() const {
    return members_.rules() ? caf::timespan(members_.rules()->request_timeout) : caf::infinite;
  }

  msg::master_actor::pointer self_;
  actor_trace& trace_;
  const membership& members_;
  complaint on_error_;
  bool is_closed_ = false;
  std::size_t pending_ = 0;
  std::map<std::uint64_t, question> questions_;
  std::uint64_t next_question_ = 0;
};

}  // namespace troupe::actors
