// A recording for other tools: space-time diagrams, spreadsheets and data frames.

#pragma once

#include <cstdint>
#include <ostream>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// Writes what actors did, with vector clocks, as ShiViz (bestchai.bitbucket.io/shiviz) reads it: its regular
/// expression, an empty line, then two lines for each message handled and each turn of an actor's own. The clocks come
/// from what each actor did one after the other and from which message each was; no time is compared, but that an
/// activity which the recording has after one of its effects counts as unrelated. Blanks in names become underscores.
/// Returns how many events were written. ShiViz itself draws some thousands.
std::uint64_t write_shiviz(const trace::recording& run, std::ostream& to);

/// Writes a line for each event, after one of column names, as RFC 4180 has it. Times are nanoseconds of the recording;
/// fields that a kind of event does not have are empty. Returns how many events were written.
std::uint64_t write_csv(const trace::recording& run, std::ostream& to);

}  // namespace troupe::analysis
