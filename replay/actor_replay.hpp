// One actor of a recorded run, run again alone: it gets the messages that it handled, as they were recorded, one after
// the other on the caller's thread, and what it sends is compared with what it sent.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "trace/recording.hpp"

namespace troupe::replay {

struct actor_replay_result {
  std::uint64_t handled = 0;   ///< messages that it got
  std::uint64_t recorded = 0;  ///< that it had got
  std::uint64_t sent = 0;      ///< by it, now
  std::uint64_t compared = 0;  ///< of these, with what was recorded
  std::string difference;      ///< the first, a line; empty: none
  std::string end;             ///< the error by which the actor ended; empty: it did not
};

/// Runs server, trainer or allreduce group `actor` of the recording again, until it has got all messages, or sends one
/// that differs. `before`: called before it handles a message, with the message's id and what it is; may be null.
/// Errors, a line for the user: it is an actor of another kind, or its messages' bytes are not all recorded.
result<actor_replay_result> replay_actor(
    const trace::recording& from, std::uint16_t actor,
    const std::function<void(std::uint64_t id, const std::string& words)>& before = {});

}  // namespace troupe::replay
