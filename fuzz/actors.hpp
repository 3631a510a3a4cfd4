// What targets with actors share: an actor system whose messages are handled by the target itself, in the order in
// which they were sent, and messages to begin with.

#pragma once

#include <caf/all.hpp>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::fuzz {

/// Made once and never unmade: that would take longer than thousands of inputs. Knows all message types.
caf::actor_system& the_system();

/// Handles all messages.
void run_all();

/// Actors that are ended with the input.
class cast {
 public:
  cast() = default;
  ~cast() {
    for (const auto& one : spawned_) caf::anon_send_exit(one, caf::exit_reason::kill);
    run_all();
  }
  cast(const cast&) = delete;
  cast& operator=(const cast&) = delete;

  template <class... Args>
  auto spawn(Args&&... args) {
    auto handle = the_system().spawn(std::forward<Args>(args)...);
    spawned_.push_back(caf::actor_cast<caf::actor>(handle));
    return handle;
  }

  /// Sends `message` as somebody who takes an answer.
  template <class Answer, class Handle, class Message>
  void ask(const Handle& whom, Message message) {
    spawn([whom, message = std::move(message)](caf::event_based_actor* self) mutable {
      self->request(whom, caf::infinite, std::move(message))
          .then([](const Answer&) {}, [](const caf::error& why) { protocol::describe(why); });
    });
  }

 private:
  std::vector<caf::actor> spawned_;
};

}  // namespace troupe::fuzz
