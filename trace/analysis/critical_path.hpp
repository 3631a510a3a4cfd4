// The critical path of a step: the longest chain of work, transfers and waits from its begin to its commit.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/analysis/step_graph.hpp"

namespace troupe::analysis {

/// The parts of a path that are spent on the same thing, summed up.
struct contribution {
  path_part what;
  trace::nanoseconds time = 0;
  trace::nanoseconds queued = 0;  ///< part of `time` while a message that the path needs was in that actor's queue
};

/// The critical path of one step.
struct step_path {
  step_window window;
  std::vector<path_segment> chain;  ///< from its begin to its commit, without gaps
  std::vector<contribution> parts;  ///< the chain summed up, in order of first appearance

  /// The one that takes longest; null if the chain is empty.
  const contribution* largest() const;
};

/// One step in detail.
struct step_study {
  step_path path;
  std::map<std::uint16_t, step_graph::slack_of_actor> actors;
  /// The step if its largest contribution took half its time: its time (an upper bound, as actors keep their order),
  /// and then the largest contribution.
  struct what_if {
    path_part what;
    trace::nanoseconds time = 0;
    std::optional<contribution> largest;
  };
  std::optional<what_if> halved;
};

step_path find_critical_path(const causality& of, const step_window& window);
step_study study_step(const causality& of, const step_window& window);

/// Statistics over all whole steps of a recording.
struct path_statistics {
  struct part {
    path_part what;
    trace::nanoseconds p50 = 0;  ///< over all steps; 0 for a step whose path lacks it
    trace::nanoseconds p95 = 0;
    trace::nanoseconds sum = 0;
    std::uint64_t steps = 0;    ///< steps with the part on their path
    std::uint64_t largest = 0;  ///< the step in which the part takes longest
  };
  std::uint64_t steps = 0;
  trace::nanoseconds p50 = 0;  ///< a step's time
  trace::nanoseconds p95 = 0;
  trace::nanoseconds sum = 0;
  std::vector<part> parts;  ///< largest sum first
};

path_statistics gather(const std::vector<step_path>& paths);

/// The answer to `critical-path`: the steps asked for, or else the slowest one and statistics over all.
struct path_report {
  bool common = true;  ///< see step_windows
  std::uint64_t incomplete = 0;
  std::vector<step_study> studies;
  std::vector<step_path> paths;               ///< all whole steps, without chains; empty if a step was requested
  std::optional<path_statistics> statistics;  ///< over `paths`
};

/// Errors: no such step, no whole step at all.
result<path_report> report_critical_path(const causality& of, std::optional<std::uint64_t> step);

/// One line, as in `step 812: 41.7 ms = lookup wait 6.1 (server 1) + forward/backward 22.0 (trainer 0) + ...`.
std::string path_line(const trace::recording& run, const step_path& path, bool common = true);
/// Text for a terminal; at most `limit` rows of each list.
std::string report_text(const trace::recording& run, const path_report& report, std::size_t limit);
boost::json::object report_json(const trace::recording& run, const path_report& report);
/// One step of the report; `common`: see step_windows.
boost::json::object study_json(const trace::recording& run, const step_study& study, bool common);
boost::json::object statistics_json(const trace::recording& run, const path_statistics& all);

}  // namespace troupe::analysis
