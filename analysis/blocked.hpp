// Who waits on whom at the end of a recording, or now, and what keeps them all.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace.hpp"
#include "analysis/wait_for.hpp"

namespace troupe::analysis {

/// Why a run does not go on, the most certain first.
enum class blockage : std::uint8_t {
  none,               ///< nobody waits for long for what will not come
  dead,               ///< a process or an actor has ended before its time
  stopped,            ///< a process is stopped by a signal, or by a debugger
  never_arrived,      ///< a message was sent and has not come
  ranks_missing,      ///< a rank has not launched a collective that the others have
  cycle,              ///< actors wait for each other
  credits_exhausted,  ///< a message is held back until credit comes
  incomplete,         ///< launched by all ranks, completed by none
  queued,             ///< a message has arrived behind many others
  handler_running,    ///< an actor is at work
  idle,               ///< an actor owes something, waits for nobody and does nothing
};
std::string_view name_of(blockage what);

struct blocked_report {
  blockage what = blockage::none;
  std::string verdict;                ///< one line
  std::optional<std::uint16_t> root;  ///< the actor that all comes down to, if it is one
  std::vector<wait_edge> waits;
  std::vector<std::uint16_t> cycle;  ///< each waits for the next, the last for the first
  std::vector<std::string> details;
};

/// Follows each wait to who waits for nobody, or to a cycle, and judges by what most actors wait for. A message that is
/// not there counts as lost when a later one of its sender has come, or after `longest_transit_ns` under way.
blocked_report find_blocked(const trace::recording& run);

/// For how long what blocks has blocked: at any moment some actor is at work, and others wait for it.
trace::nanoseconds blocked_for(const trace::recording& run, const blocked_report& report);

/// The verdict, then a table of the waits, then details. Ends with a newline.
std::string to_text(const trace::recording& run, const blocked_report& report);

/// Fields: verdict, class, root, waits [{who, on, for, state, type, message, step, since_ns, waiting_ns, ...}], cycle,
/// details.
boost::json::object to_json(const trace::recording& run, const blocked_report& report);

/// What a wait is for, as in `gradient of step 11`, `answer to lookup #417 (step 13)`, `collective 33 (step 12, bucket
/// 0)`.
std::string subject_of(const trace::recording& run, const wait_edge& one);

}  // namespace troupe::analysis
