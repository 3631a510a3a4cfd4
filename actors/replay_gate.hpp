// What holds the actors of a run to another, recorded one, as they see it (replay/replay.hpp).

#pragma once

#include <compare>
#include <cstdint>

#include "protocol/header.hpp"
#include "protocol/message_types.hpp"

namespace troupe::trace {
struct content;
}

namespace troupe::actors {

/// By what a message of one run is found again in another. Messages with the same key are told apart by their order,
/// which is that in which they were sent. Actors are numbered as in a run in one process, whatever the run was spread
/// over.
struct replay_key {
  std::uint16_t receiver = 0;
  std::uint16_t sender = 0;
  std::uint16_t type = 0;    ///< as this program numbers them
  std::uint16_t bucket = 0;  ///< of messages of which there is one for each bucket
  std::uint64_t step = 0;

  auto operator<=>(const replay_key&) const = default;
};

/// The key of a message that `receiver` handles.
inline replay_key replay_key_of(std::uint32_t receiver, const msg::header& head, std::uint16_t type,
                                std::uint16_t aux) {
  return {static_cast<std::uint16_t>(receiver), static_cast<std::uint16_t>(head.sender), type,
          protocol::traits_by_id(type).by_bucket ? aux : std::uint16_t{0}, head.step};
}

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
