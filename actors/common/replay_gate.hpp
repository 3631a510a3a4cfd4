// The interface through which a replay holds a run's actors to a recorded order (trace/replay/replay.hpp).

#pragma once

#include <compare>
#include <cstdint>

#include "protocol/header.hpp"
#include "protocol/message_types.hpp"

namespace troupe::trace {
struct content;
}

namespace troupe::actors {

/// The key of a message, by which it is found in another run. Messages with the same key are in the order in which they
/// were sent. Actors are numbered as in a run in one process, however many processes the run had.
struct replay_key {
  std::uint16_t receiver = 0;
  std::uint16_t sender = 0;
  std::uint16_t type = 0;    ///< this program's type number
  std::uint16_t bucket = 0;  ///< for messages that are sent once for each bucket
  std::uint64_t step = 0;

  auto operator<=>(const replay_key&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// Returns the key of a message that `receiver` handles.
inline replay_key replay_key_of(std::uint32_t receiver, const msg::header& head, std::uint16_t type,
                                std::uint16_t aux) {
  return {static_cast<std::uint16_t>(receiver), static_cast<std::uint16_t>(head.sender), type,
          protocol::traits_by_id(type).by_bucket ? aux : std::uint16_t{0}, head.step};
}

/// Holds one actor to its recorded order. Belongs to that actor.
class replay_gate {
 public:
  virtual ~replay_gate() = default;

  /// The actor `self` starts: its messages follow.
  virtual void start(const caf::actor_addr& self) = 0;

  /// Returns whether the actor may handle this message now. If not, the actor calls `hold`.
  virtual bool may_handle(const msg::header& head, std::uint16_t type) = 0;
  virtual void hold(const msg::header& head, std::uint16_t type, caf::mailbox_element_ptr message) = 0;
  /// Returns a held message that may be handled now; null: none.
  virtual caf::mailbox_element_ptr take_next() = 0;

  /// The actor is about to handle a message with content `now`: compares it with the recorded one.
  virtual void compare(const msg::header& head, std::uint16_t type, std::uint16_t aux, const trace::content& now) = 0;
};

class replay_control {
 public:
  virtual ~replay_control() = default;

  /// Returns whether the recorded run had several processes.
  virtual bool is_remote() const = 0;
  /// Returns the gate of an actor; null: it does nothing that could differ.
  virtual replay_gate* find(std::uint32_t actor) = 0;
};

}  // namespace troupe::actors
