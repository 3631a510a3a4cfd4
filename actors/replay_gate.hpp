// What holds the actors of a run to another, recorded one, as they see it (replay/replay.hpp).

#pragma once

#include <caf/actor_addr.hpp>
#include <caf/mailbox_element.hpp>
#include <cstdint>

#include "protocol/header.hpp"

namespace troupe::trace {
struct content;
}

namespace troupe::actors {

/// One actor's part in that. Belongs to that actor.
class replay_gate {
 public:
  virtual ~replay_gate() = default;

  /// Whose messages come from now on.
  virtual void start(const caf::actor_addr& self) = 0;

  /// Whether the order lets the actor handle this message now. If not, it is to `hold` it.
  virtual bool may_handle(const msg::header& head, std::uint16_t type) = 0;
  virtual void hold(const msg::header& head, std::uint16_t type, caf::mailbox_element_ptr message) = 0;
  /// A held message whose turn has come; null: none.
  virtual caf::mailbox_element_ptr take_next() = 0;

  /// The actor is about to handle a message with `now` in it.
  virtual void compare(const msg::header& head, std::uint16_t type, std::uint16_t aux, const trace::content& now) = 0;
};

class replay_control {
 public:
  virtual ~replay_control() = default;

  /// Whether the recorded actors were in several processes.
  virtual bool is_remote() const = 0;
  /// Null: the actor does nothing that could differ.
  virtual replay_gate* find(std::uint32_t actor) = 0;
};

}  // namespace troupe::actors
