// Checks whether a recorded run kept the rules that its results depend on.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// A rule, and how often the recording kept and broke it.
struct invariant {
  std::string name;
  std::string rule;         ///< the rule's text for users
  std::uint64_t cases = 0;  ///< how many cases were checked
  std::uint64_t violations = 0;
  std::vector<std::string> first = {};  ///< the first violations, as text
  std::string note = {};                ///< why it was not checked, or only in part; empty: it was checked
};

struct check_report {
  std::vector<invariant> invariants;
  std::vector<std::string> notes;  ///< what the recording lacks

  bool holds() const;
};

/// How many violations of an invariant are kept as text.
constexpr std::size_t violations_listed = 5;

/// Checks what is recorded. Records that a ring has overwritten or a filter has left out count neither as kept nor as
/// broken.
///
/// - `sender_order`: each receiver handles a sender's messages in the order of their numbers, answers and others apart.
/// - `gradient_once`: a server handles one gradient of each trainer for each step, without gaps, before it applies the
///   step.
/// - `apply_once`: a server applies each optimizer step once, in order. Not checked for `async` runs, which apply a
///   step in parts.
/// - `committed_rows`: rows for step s that lack n optimizer steps were sent after the server had applied step s - 1 -
///   n. Not checked for `async` runs.
/// - `staleness_bound`: rows lack at most as many optimizer steps as the job allows.
/// - `credit_not_negative`: no more credit comes back than was given.
/// - `requests_answered`: in a process that ended cleanly, every request was answered, unless its sender ended first.
/// - `begin_after_arrival`: no message arrives before it was sent or is begun before it arrived, within the error of
///   the clocks.
check_report check(const trace::recording& run);

/// First whether all invariants hold, then a line for each, followed by its first violations.
std::string to_text(const check_report& report);

/// Fields: holds, invariants [{name, rule, cases, violations, first, note}], notes.
boost::json::object to_json(const check_report& report);

}  // namespace troupe::analysis
