// Sums over a recording: the work of each actor, the traffic on each edge, the slowest steps, lost messages.

#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trace/analysis/causality.hpp"
#include "trace/analysis/device_work.hpp"
#include "trace/analysis/pipeline.hpp"
#include "trace/analysis/steps.hpp"

namespace troupe::analysis {

struct actor_summary {
  std::uint16_t actor = 0;
  std::uint64_t handled = 0;
  trace::nanoseconds working = 0;  ///< on messages and on work that no message requested
  trace::nanoseconds queued = 0;   ///< sum of its messages' times in the queue
  std::uint64_t longest = 0;       ///< the message that took longest to handle; 0: none
  trace::nanoseconds longest_time = 0;
};

struct edge_summary {
  std::uint16_t sender = 0;
  std::uint16_t receiver = 0;
  std::uint16_t type = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  trace::nanoseconds wire = 0;     ///< sum of the times from sent to arrived
  trace::nanoseconds queued = 0;   ///< sum from arrived to begun
  trace::nanoseconds worked = 0;   ///< sum from begun to ended
  trace::nanoseconds latency = 0;  ///< sum from sent to ended
  trace::nanoseconds longest = 0;  ///< the longest latency
};

/// A message that had no effect.
struct lost_message {
  std::uint64_t id = 0;
  std::uint16_t type = 0;
  std::uint16_t receiver = 0;
  trace::nanoseconds when = 0;
  std::string why;
};

/// How often and for how long a process did not run.
struct stall_summary {
  std::uint32_t process = 0;
  std::uint64_t times = 0;
  trace::nanoseconds sum = 0;
  trace::nanoseconds longest = 0;
};

struct summary {
  trace::nanoseconds begin = 0;  ///< the first recorded moment; end: the last
  trace::nanoseconds end = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::vector<actor_summary> actors;  ///< by number
  std::vector<edge_summary> edges;    ///< most bytes first
  std::vector<stall_summary> stalls;  ///< by process; only of those that stalled
  device_use devices;
  pipeline_use pipeline;
  step_windows steps;
  std::vector<lost_message> lost;                       ///< dropped, or sent to an actor that had ended; by time
  std::vector<trace::actor_state::request> unanswered;  ///< at the end; by time
};

summary summarize(const causality& of);

constexpr trace::nanoseconds always = std::numeric_limits<trace::nanoseconds>::min();

/// Only these sums, of events that begin at `since` or later: some 10 ms for a million events.
std::vector<actor_summary> summarize_actors(const trace::recording& run, trace::nanoseconds since = always);
std::vector<edge_summary> summarize_edges(const trace::recording& run, trace::nanoseconds since = always);

/// Text for a terminal, without the recording's warnings; at most `limit` rows of each list.
std::string summary_text(const causality& of, const summary& what, std::size_t limit);
/// All fields, the slowest step first; times in ns.
boost::json::object summary_json(const causality& of, const summary& what);
boost::json::array processes_json(const trace::recording& run);
boost::json::array attempts_json(const trace::recording& run);
boost::json::object edge_json(const trace::recording& run, const edge_summary& one);

}  // namespace troupe::analysis
