// Whether a recorded run kept to the rules that its results rest on.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// A rule, and how the recording fared.
struct invariant {
  std::string name;
  std::string rule;         ///< in words
  std::uint64_t cases = 0;  ///< looked at
  std::uint64_t violations = 0;
  std::vector<std::string> first = {};  ///< violations in words, some
  std::string note = {};                ///< why it was not judged, or only in part; empty: it was
};

struct check_report {
  std::vector<invariant> invariants;
  std::vector<std::string> notes;  ///< what of the run the recording does not hold

  bool holds() const;
};

/// Of each invariant, violations that are kept in words.
constexpr std::size_t violations_listed = 5;

/// Judges by what is recorded: what a ring has overwritten or a filter has left out counts neither as kept nor as
/// broken.
///
/// - `sender_order`: each receiver handles a sender's messages in the order of their numbers, answers and others apart.
/// - `gradient_once`: a server handles one gradient of each trainer for each step, leaving no step out, and before it
///   applies the step.
/// - `apply_once`: a server applies each optimizer step once, in order. Not of `async` runs, which apply in parts.
/// - `committed_rows`: rows for a step that lack n optimizer steps were sent after the server had applied the step that
///   many before. Likewise.
/// - `staleness_bound`: rows lack as many optimizer steps as the job allows at most.
/// - `credit_not_negative`: never more credit comes back than was given.
/// - `requests_answered`: in a process that ended cleanly, every request was answered, unless who asked ended first.
/// - `begin_after_arrival`: no message arrives before it was sent, or is begun before it has arrived, beyond
///   what the clocks may be wrong.
check_report check(const trace::recording& run);

/// The verdict, then a line for each invariant, and under it the first violations.
std::string to_text(const check_report& report);

/// Fields: holds, invariants [{name, rule, cases, violations, first, note}], notes.
boost::json::object to_json(const check_report& report);

}  // namespace troupe::analysis
