// Requests of a trainer's tasks to other actors.

#pragma once

#include <memory>
#include <utility>

#include "actors/trainer/trainer_body.hpp"
#include "troupe/runtime/actor_executor.hpp"

namespace troupe::runtime {

/// Belongs to the trainer's actor.
class task_requests {
 public:
  /// Requires: `actor` outlives this object.
  task_requests(const actors::trainer_context& actor, std::shared_ptr<actor_executor> executor)
      : actor_(actor), executor_(std::move(executor)) {}

  const actors::trainer_context& actor() const { return actor_; }
  const std::shared_ptr<actor_executor>& executor() const { return executor_; }

  /// Sends a request, and calls `on_answer` or `on_error` in the executor: waiting tasks then resume.
  template <class Answer, class Handle, class Message, class OnAnswer, class OnError>
  void ask(const Handle& receiver, actors::question what, Message message, OnAnswer on_answer, OnError on_error) const {
    what.survives_error = true;
    actor_.ask<Answer>(receiver, what, std::move(message), entering(std::move(on_answer)),
                       entering(std::move(on_error)));
  }

  /// Returns a callback that calls `what` in the executor.
  template <class F>
  auto entering(F what) const {
    return [executor = executor_.get(), what = std::move(what)](auto&& one) mutable {
      executor->enter([&] { what(one); });
    };
  }

 private:
  const actors::trainer_context& actor_;
  const std::shared_ptr<actor_executor> executor_;
};

}  // namespace troupe::runtime
