// Exports a recording for other tools: space-time diagrams, spreadsheets, data frames and timelines.

#pragma once

#include <cstdint>
#include <ostream>

#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// Writes the activities of actors with vector clocks for ShiViz (bestchai.bitbucket.io/shiviz): its regular
/// expression, an empty line, then two lines per activity. The clocks follow from the order of each actor's activities
/// and from messages, not from times; but an activity that the recording has after one of its effects counts as
/// unrelated to it. Blanks in names become underscores. Returns the number of events written. ShiViz can draw some
/// thousands.
std::uint64_t write_shiviz(const trace::recording& run, std::ostream& to);

/// Writes a line of column names and a line per event, as CSV (RFC 4180). Times are nanoseconds of the recording;
/// fields that a kind of event does not have are empty; names that begin like a formula (=, +, -, @) have an apostrophe
/// before that. Returns the number of events written.
std::uint64_t write_csv(const trace::recording& run, std::ostream& to);

/// The numbers of events written.
struct timeline_counts {
  std::uint64_t slices = 0;    ///< handled messages and ranges of work
  std::uint64_t messages = 0;  ///< slices that are messages
  std::uint64_t flows = 0;
  std::uint64_t unbound = 0;  ///< messages without an arrow, as the sender's activity is not recorded
  std::uint64_t asyncs = 0;   ///< steps and collectives
  std::uint64_t instants = 0;
  std::uint64_t counters = 0;  ///< values of counters
};

/// Writes `run` in the Trace Event Format for chrome://tracing and ui.perfetto.dev: a process per process, in order of
/// nodes, with a thread per actor; a slice for each handled message, range of work and phase of a checkpoint, nested on
/// its thread (overlaps, which only faulty clocks cause, are cut); an arrow for each message whose sender's slice is
/// recorded, never backwards in time; async slices for steps and collectives; instants for spawn, exit, drop and links;
/// counters for queue depths, bytes in flight between processes, staleness and metrics. Streams, so that it needs
/// little memory. Errors of writing show in the state of `to`.
timeline_counts write_timeline(const trace::recording& run, std::ostream& to);

}  // namespace troupe::analysis
