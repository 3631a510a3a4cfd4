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
  nanoseconds working = 0;    ///< in messages and in turns of its own
  nanoseconds queued = 0;     ///< that its messages lay there, summed up
  std::uint64_t longest = 0;  ///< the message that it worked on longest; 0: none
  nanoseconds longest_time = 0;
};

struct edge_summary {
  std::uint16_t sender = 0;
  std::uint16_t receiver = 0;
  std::uint16_t type = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  nanoseconds wire = 0;     ///< sent to arrived, summed up
  nanoseconds queued = 0;   ///< arrived to begun, summed up
  nanoseconds worked = 0;   ///< begun to ended, summed up
  nanoseconds latency = 0;  ///< sent to ended, summed up
  nanoseconds longest = 0;  ///< the longest of these
};

/// A message that came to nothing.
struct lost_message {
  std::uint64_t id = 0;
  std::uint16_t type = 0;
  std::uint16_t receiver = 0;
  nanoseconds when = 0;
  std::string why;
};

struct unanswered_request {
  std::uint64_t id = 0;
  std::uint16_t type = 0;
  std::uint16_t peer = 0;
  std::uint64_t step = 0;
  nanoseconds since = 0;  ///< when it was sent
};

struct summary {
  nanoseconds begin = 0;  ///< first and last moment recorded
  nanoseconds end = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::vector<actor_summary> actors;  ///< by number
  std::vector<edge_summary> edges;    ///< most bytes first
  step_windows steps;
  std::vector<lost_message> lost;              ///< dropped, or sent to an actor that had ended; by time
  std::vector<unanswered_request> unanswered;  ///< at the end; by time
};

summary summarize(const causality& of);

constexpr nanoseconds always = std::numeric_limits<nanoseconds>::min();

/// The sums alone, of what began at `since` or later: some 10 ms for a million events.
std::vector<actor_summary> summarize_actors(const recording& run, nanoseconds since = always);
std::vector<edge_summary> summarize_edges(const recording& run, nanoseconds since = always);

/// For a terminal, without the recording's warnings; at most `limit` rows of each list.
std::string summary_text(const causality& of, const summary& what, std::size_t limit);
/// All of it, steps slowest first; times in ns.
boost::json::object summary_json(const causality& of, const summary& what);
boost::json::array processes_json(const recording& run);
boost::json::object edge_json(const recording& run, const edge_summary& one);

}  // namespace troupe::analysis
