// The answers of `troupe trace`: one function for each analysis.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "base/result.hpp"
#include "cluster/nodes/trace_sources.hpp"
#include "trace/record/recording.hpp"

namespace troupe::apps {

/// The arguments of a call.
struct question {
  const CLI::App& app;
  console& out;
  std::string name;                    ///< the analysis
  std::vector<std::string> arguments;  ///< positional arguments; FILE or DIR is the last
};

/// Reads --NAME as a whole number of at least `least`; null if it was not given.
result<std::optional<std::uint64_t>> read_number(const question& asked, const std::string& name, std::uint64_t least);

/// Returns the files and folders, with the run or attempt that --run or --attempt names. `share` as in `trace_sources`.
result<trace::sources> sources_of(const question& asked, std::span<const std::string> paths,
                                  std::uint64_t share = nodes::share_of_one_recording);

/// Reports which of several attempts `read` contains, unless `from` names it.
void report_attempt(const question& asked, const trace::sources& from, const trace::recording& read);

/// Reads the recording in files and folders; warns of unreadable parts, and reports which of several attempts it is.
result<trace::recording> read_recording(const question& asked, std::span<const std::string> paths);

/// The same for a verdict, which must not rest on guesses. Further faults: the metadata, which explain the numbers,
/// cannot be read.
result<trace::recording> read_for_verdict(const question& asked, std::span<const std::string> paths);

// Each prints its answer and returns the exit code; a fault for wrong input.
result<int> summary(const question& asked);
result<int> critical_path(const question& asked);
result<int> why(const question& asked);
result<int> cone(const question& asked);
result<int> blocked(const question& asked);
result<int> check(const question& asked);
result<int> timeline(const question& asked);
result<int> diff(const question& asked);
result<int> blame(const question& asked);

/// Prints the events of a run while it is under way, as lines of fixed columns or as JSON objects, until no process of
/// the run is left on this machine, or SIGINT or SIGTERM.
result<int> tail(const question& asked);

/// Repeats a recorded run in this process, or one actor of it on the calling thread, and compares every training
/// message with the recorded one. exit_failed: a message or the final weights differ. Faults of kind input: it cannot
/// be replayed; of kind run: it ended by another error.
result<int> replay(const question& asked);

/// Serves the live page of a recorded run, or of one under way, and prints its address, until SIGINT or SIGTERM. Faults
/// of kind run: it cannot listen there.
result<int> serve_page(const question& asked);

}  // namespace troupe::apps
