// A thread beside an actor, for calls that may block on a disk.

#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <functional>
#include <string>
#include <utility>

#include "actors/common/inline_execution.hpp"

namespace troupe::actors {

/// The thread starts with the first call. In a system whose actors all run on one thread, as in tests, the calls run on
/// that thread. Belongs to one actor, and ends with it: the current call runs to its end, waiting ones are dropped.
class writing_thread {
 public:
  writing_thread() = default;
  ~writing_thread() {
    if (thread_) caf::anon_send_exit(thread_, caf::exit_reason::kill);
  }
  writing_thread(const writing_thread&) = delete;
  writing_thread& operator=(const writing_thread&) = delete;

  /// Calls `what` after the previous calls. Requires: it throws nothing.
  void run(caf::actor_system& system, std::function<void()> what) {
    if (!thread_) {
      const auto idle = [](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; };
      const bool is_staged = caf::get_or(system.config(), "caf.scheduler.policy", std::string()) == "testing";
      thread_ = is_staged ? system.spawn<caf::hidden>(idle) : system.spawn<caf::detached + caf::hidden>(idle);
    }
    run_in(caf::actor_cast<caf::strong_actor_ptr>(thread_), std::move(what));
  }

 private:
  caf::actor thread_;
};

}  // namespace troupe::actors
