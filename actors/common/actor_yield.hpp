// How a busy actor yields its thread: it continues by a message to itself, after other actors.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/common/inline_execution.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the actor.
class actor_yield {
 public:
  using pointer = msg::full_trainer_actor::pointer;

  /// Requires: the arguments outlive this object.
  actor_yield(pointer self, actor_trace& trace, const std::uint64_t& step) : self_(self), trace_(trace), step_(step) {}

  /// Calls `resume` after the actors that get messages from now on have run, on this thread or another free one: a
  /// worker first runs the actors that became ready last.
  void to_woken(std::function<void()> resume) { self_->spawn<caf::hidden>(turn_of(std::move(resume))); }

  /// Calls `resume` after all actors that are ready, and returns true; returns false if it yielded less than 50 ms ago.
  bool to_all(std::function<void()> resume) {
    constexpr std::chrono::milliseconds interval{50};
    const auto now = std::chrono::steady_clock::now();
    if (now < yielded_ + interval) return false;
    yielded_ = now;
    self_->home_system().spawn<caf::hidden>(turn_of(std::move(resume)));  // runs last, since its parent is not an actor
    return true;
  }

 private:
  /// Returns the behavior of an actor that has this one call `resume`.
  std::function<void(caf::event_based_actor*)> turn_of(std::function<void()> resume) {
    return [me = caf::strong_actor_ptr(self_->ctrl()), resume = std::move(resume), this](caf::event_based_actor* turn) {
      // The thread that reads a link also runs actors.
      const bool on_link_thread = dynamic_cast<inline_execution*>(turn->context()) != nullptr;
      run_in(
          me,
          [resume, this] {
            const actor_trace::turn as_turn(trace_, step_);
            resume();
          },
          on_link_thread ? nullptr : turn->context());
    };
  }

  pointer self_;
  actor_trace& trace_;
  const std::uint64_t& step_;
  std::chrono::steady_clock::time_point yielded_ = std::chrono::steady_clock::now();
};

}  // namespace troupe::actors
