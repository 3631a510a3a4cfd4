// Who sends how much to whom: sums over a recording's messages.

#pragma once

#include <cstdint>
#include <vector>

#include "trace/recording.hpp"

namespace troupe::page {

/// Messages of one type from one actor to another.
struct flow {
  std::uint16_t from = 0;
  std::uint16_t to = 0;
  std::uint16_t type = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  trace::nanoseconds latency = 0;  ///< sent to end, summed
  trace::nanoseconds latency_longest = 0;
  trace::nanoseconds travel = 0;  ///< sent to arrived, summed
  trace::nanoseconds queued = 0;  ///< arrived to begin, summed
  trace::nanoseconds worked = 0;  ///< begin to end, summed
};

/// Those handled from moment `since` on, by sender, receiver and type.
std::vector<flow> sum_flows(const trace::recording& of, trace::nanoseconds since);

/// What an actor did from a moment on.
struct activity {
  std::uint16_t actor = 0;
  std::uint64_t messages = 0;
  trace::nanoseconds worked = 0;  ///< handling, and in ranges of its own
  trace::nanoseconds queued = 0;  ///< of its messages, summed: over a time it is the mean length of its queue
};
std::vector<activity> sum_activities(const trace::recording& of, trace::nanoseconds since);

}  // namespace troupe::page
