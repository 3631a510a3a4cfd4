// What a recording holds: who did how much, what went where, which steps were slow, and what got lost.

#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "analysis/causality.hpp"
#include "analysis/steps.hpp"

namespace troupe::analysis {

struct actor_summary {
  std::uint16_t actor = 0;
  std::uint64_t handled = 0;
  trace::nanoseconds working = 0;  ///< in messages and in turns of its own
  trace::nanoseconds queued = 0;   ///< that its messages lay there, summed up
  std::uint64_t longest = 0;       ///< the message that it worked on longest; 0: none
  trace::nanoseconds longest_time = 0;
};

struct edge_summary {
  std::uint16_t sender = 0;
  std::uint16_t receiver = 0;
  std::uint16_t type = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  trace::nanoseconds wire = 0;     ///< sent to arrived, summed up
  trace::nanoseconds queued = 0;   ///< arrived to begun, summed up
  trace::nanoseconds worked = 0;   ///< begun to ended, summed up
  trace::nanoseconds latency = 0;  ///< sent to ended, summed up
  trace::nanoseconds longest = 0;  ///< the longest of these
};

/// A message that came to nothing.
struct lost_message {
  std::uint64_t id = 0;
  std::uint16_t type = 0;
  std::uint16_t receiver = 0;
  trace::nanoseconds when = 0;
  std::string why;
};

struct unanswered_request {
  std::uint64_t id = 0;
  std::uint16_t type = 0;
  std::uint16_t peer = 0;
  std::uint64_t step = 0;
  trace::nanoseconds since = 0;  ///< when it was sent
};

struct summary {
  trace::nanoseconds begin = 0;  ///< first and last moment recorded
  trace::nanoseconds end = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::vector<actor_summary> actors;  ///< by number
  std::vector<edge_summary> edges;    ///< most bytes first
  step_windows steps;
  std::vector<lost_message> lost;              ///< dropped, or sent to an actor that had ended; by time
  std::vector<unanswered_request> unanswered;  ///< at the end; by time
};

summary summarize(const causality& of);

constexpr trace::nanoseconds always = std::numeric_limits<trace::nanoseconds>::min();

/// The sums alone, of what began at `since` or later: some 10 ms for a million events.
std::vector<actor_summary> summarize_actors(const trace::recording& run, trace::nanoseconds since = always);
std::vector<edge_summary> summarize_edges(const trace::recording& run, trace::nanoseconds since = always);

/// For a terminal, without the recording's warnings; at most `limit` rows of each list.
std::string summary_text(const causality& of, const summary& what, std::size_t limit);
/// All of it, steps slowest first; times in ns.
boost::json::object summary_json(const causality& of, const summary& what);
boost::json::array processes_json(const trace::recording& run);
boost::json::object edge_json(const trace::recording& run, const edge_summary& one);

}  // namespace troupe::analysis
