// The wait-for graph at the end of a recording: which actor waits for which.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "trace/analysis/causality.hpp"
#include "trace/analysis/lost_messages.hpp"

namespace troupe::analysis {

/// The state of the message or collective that is waited for.
enum class wait_state : std::uint8_t {
  unsent,         ///< not sent yet
  under_way,      ///< sent a moment ago
  never_arrived,  ///< sent, but lost
  out_of_credit,  ///< held back until the receiver's process grants credit
  queued,         ///< arrived, not begun
  in_hand,        ///< being handled
  parked,         ///< handled; the answer comes later
  incomplete,     ///< a collective that all ranks have launched
};
std::string_view name_of(wait_state what);

/// `who` cannot continue until `on` acts.
struct wait_edge {
  std::uint16_t who = 0;
  std::uint16_t on = 0;
  wait_state state = wait_state::unsent;
  bool is_answer = false;  ///< true: `on` has to answer `message`, of `type`; false: to send a message of `type`
  std::uint16_t type = 0;
  std::uint64_t message = 0;  ///< the unanswered request, or the missing message; 0: unknown
  std::uint64_t step = 0;
  trace::nanoseconds since = 0;
  std::uint64_t behind = 0;                ///< queued: how many messages are before it in the queue
  std::optional<trace::nanoseconds> sent;  ///< under way or never arrived: when it was sent, if recorded
  std::uint16_t sender = 0;                ///< under way, never arrived, out of credit: the message's sender
  std::uint16_t receiver = 0;              ///< in the same states: the message's receiver
  std::optional<open_collective> collective;
  const trace::call_state* call = nullptr;  ///< in the recording: a trainer's call to others, which `on` has not made
  bool in_handler = false;                  ///< `who` cannot finish the message that it is handling before
};

/// Whether `actor` was handling a message or other work when the recording ended.
bool is_at_work(const trace::recording& run, std::uint16_t actor);

/// All waits that boards and records show, the oldest first.
///
/// An open request waits for its peer to handle it. If the peer has parked it, the peer waits in turn: for a lookup, or
/// a query of the state after a step, for the gradients of the steps before; for a request that all trainers have to
/// make, for the trainers that have not made it. For a parked reduce, the requesting trainer waits for the ranks that
/// have not launched the collective. A trainer that has called others waits for those whose part has not come. Actors
/// in `dead` processes, and those that ended cleanly, have no waits.
std::vector<wait_edge> find_waits(const causality& index, const lost_messages& lost,
                                  const std::set<std::uint32_t>& dead);

}  // namespace troupe::analysis
