// Replays one actor of a recorded run alone: gives it the recorded messages in order, on the caller's thread, and
// compares what it sends with the recording.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "trace/record/recording.hpp"

namespace troupe::replay {

struct actor_replay_result {
  std::uint64_t handled = 0;   ///< messages it has handled
  std::uint64_t recorded = 0;  ///< messages to handle
  std::uint64_t sent = 0;      ///< messages it has sent
  std::uint64_t compared = 0;  ///< sent messages compared with the recording
  std::string difference;      ///< the first one, a line; empty: none
  std::string end;             ///< the error that ended the actor; empty: none
};

/// Replays server, trainer or allreduce group `actor` until it has handled all messages, or sends one that differs.
/// Calls `before` (may be null) before each message, with its id and a description. Faults, a line for the user: an
/// actor of another kind, or contents that were not recorded.
result<actor_replay_result> replay_actor(
    const trace::recording& from, std::uint16_t actor,
    const std::function<void(std::uint64_t id, const std::string& text)>& before = {});

}  // namespace troupe::replay
