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

/// What was written.
struct timeline_counts {
  std::uint64_t slices = 0;    ///< handled messages and ranges of work
  std::uint64_t messages = 0;  ///< of the slices
  std::uint64_t flows = 0;
  std::uint64_t unbound = 0;  ///< messages without an arrow: what their sender did then is not recorded
  std::uint64_t asyncs = 0;   ///< steps and collectives
  std::uint64_t instants = 0;
  std::uint64_t counters = 0;  ///< their values
};

/// Writes `run` in the Trace Event Format: a process for each process, in order of nodes, and in it a thread for each
/// actor; a slice for each handled message and each range of work, which nest on their thread (what overlaps, as it can
/// only with faulty clocks, is cut); an arrow for each message whose sender's slice is there, never backwards;
/// steps and collectives as async slices; instants for spawn, exit, drop, checkpoints' phases aside, and links;
/// counters for the depth of queues, bytes in flight between processes, staleness and the run's metrics. Streams, and
/// so takes little memory beside the recording. Look at `to` for whether all could be written.
timeline_counts write_timeline(const trace::recording& run, std::ostream& to);

}  // namespace troupe::analysis
