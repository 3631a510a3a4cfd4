// Finds out whether a run is blocked at the end of a recording, or now: which actor waits for which, and what all wait
// for.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/trace.hpp"
#include "trace/analysis/wait_for.hpp"

namespace troupe::analysis {

/// Why a run is blocked, the most certain reason first.
enum class blockage : std::uint8_t {
  none,               ///< the run is not blocked, or no reason is certain
  dead,               ///< a process or an actor has ended early
  stopped,            ///< a process is stopped by a signal, or by a debugger
  never_arrived,      ///< a message was sent and is lost
  ranks_missing,      ///< a trainer has not called what others have, or has not sent what another receives
  cycle,              ///< actors wait for each other
  credits_exhausted,  ///< a message is held back for lack of credit
  incomplete,         ///< launched by all ranks, completed by none
  queued,             ///< a message has arrived behind many others
  handler_running,    ///< an actor is working
  idle,               ///< an actor has yet to send a message, waits for nothing and does nothing
};
std::string_view name_of(blockage what);

struct blocked_report {
  blockage what = blockage::none;
  std::string verdict;                ///< the reason in one line
  std::optional<std::uint16_t> root;  ///< the actor at the root of all waits; nullopt: none
  std::vector<wait_edge> waits;
  std::vector<std::uint16_t> cycle;  ///< each waits for the next, the last for the first
  std::vector<std::string> details;
  std::uint64_t handled = 0;  ///< messages handled between two readings of the run

  bool is_moving() const { return what == blockage::none && handled > 0; }
};

/// Follows each wait to an actor that waits for no other, or to a cycle, and chooses the end to which most actors lead.
/// A message counts as lost if a later one of its sender has arrived, or if it was sent more than `longest_transit_ns`
/// ago. Gives no reason if metadata cannot be read.
blocked_report find_blocked(const trace::recording& run);
/// The same for a live run, where `run` was read some time after `before`: only waits that lasted meanwhile count.
blocked_report find_blocked(const trace::recording& before, const trace::recording& run);

/// How long the reason has lasted: in any run, some actor works while others wait for it.
trace::nanoseconds blocked_for(const trace::recording& run, const blocked_report& report);

/// The verdict, then a table of the waits, then details; ends with a newline.
std::string to_text(const trace::recording& run, const blocked_report& report);

/// Fields: verdict, class, root, waits [{who, on, for, state, type, message, step, since_ns, waiting_ns, ...}], cycle,
/// details.
boost::json::object to_json(const trace::recording& run, const blocked_report& report);

/// What a wait is for, as in `gradient of step 11`, `answer to lookup #417 (step 13)`, `collective 33 (step 12, bucket
/// 0)`, `all_reduce #26 of trainers 0..2 (step 501)`.
std::string subject_of(const trace::recording& run, const wait_edge& one);

}  // namespace troupe::analysis
