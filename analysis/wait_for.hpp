// Who waits for whom: the edges of the wait-for graph at the end of a recording.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/causality.hpp"
#include "analysis/lost_messages.hpp"

namespace troupe::analysis {

/// How far what is waited for has come.
enum class wait_state : std::uint8_t {
  unsent,         ///< who is waited for has not sent it
  under_way,      ///< sent a moment ago
  never_arrived,  ///< sent, but has not come
  out_of_credit,  ///< held back until the receiver's process gives credit
  queued,         ///< arrived, not begun
  in_hand,        ///< being handled
  parked,         ///< handled; the answer comes later
  incomplete,     ///< a collective that all ranks have launched
};
std::string_view name_of(wait_state what);

/// `who` cannot go on until `on` acts.
struct wait_edge {
  std::uint16_t who = 0;
  std::uint16_t on = 0;
  wait_state state = wait_state::unsent;
  bool is_answer = false;  ///< `on` is to answer message `message`, of type `type`; else to send one of that type
  std::uint16_t type = 0;
  std::uint64_t message = 0;  ///< what has not been answered, or has not come; 0: its number is not known
  std::uint64_t step = 0;
  trace::nanoseconds since = 0;
  std::uint64_t behind = 0;                ///< queued: messages that came before
  std::optional<trace::nanoseconds> sent;  ///< under way or never arrived: when, if recorded
  std::uint16_t sender = 0;                ///< under way, never arrived, out of credit: of what
  std::uint16_t receiver = 0;              ///< likewise
  std::optional<open_collective> collective;
  bool in_handler = false;  ///< asked by what `who` is still handling
};

/// Whether `actor` was handling a message, or at work of its own, when the recording ended.
bool is_at_work(const trace::recording& run, std::uint16_t actor);

/// All waits that the boards and the records show, those of actors with the oldest first.
///
/// An open request waits for its peer to handle it. Once it is parked the peer waits in turn: with a lookup, or a query
/// for the state after a step, for the gradients of the steps before; with a reduce, for the ranks that have not
/// launched the collective (then the asking trainer waits for those ranks); with what all trainers must ask together,
/// for those who have not. Nothing is said of actors in `dead` processes, or that ended as they should.
std::vector<wait_edge> find_waits(const causality& index, const lost_messages& lost,
                                  const std::set<std::uint32_t>& dead);

}  // namespace troupe::analysis
