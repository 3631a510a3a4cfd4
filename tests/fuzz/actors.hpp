// Shared by targets with actors: an actor system whose messages the target itself handles, in the order in which they
// were sent, and messages to start with.

#pragma once

#include <caf/all.hpp>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::fuzz {

/// Made once and never destroyed: that would take longer than thousands of inputs. Knows all message types.
caf::actor_system& the_system();

/// Handles all messages.
void run_all();

/// Actors that end with the input.
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

  /// Sends `message` from an actor that handles the answer.
  template <class Answer, class Handle, class Message>
  void ask(const Handle& receiver, Message message) {
    spawn([receiver, message = std::move(message)](caf::event_based_actor* self) mutable {
      self->request(receiver, caf::infinite, std::move(message))
          .then([](const Answer&) {}, [](const caf::error& why) { protocol::describe(why); });
    });
  }

 private:
  std::vector<caf::actor> spawned_;
};

}  // namespace troupe::fuzz
