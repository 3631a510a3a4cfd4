// `troupe trace tail`: prints the events of a run while it is under way.

#pragma once

#include <cstdint>

#include "apps/console.hpp"
#include "base/result.hpp"
#include "trace/filter.hpp"
#include "trace/recording.hpp"

namespace troupe::apps {

struct tail_order {
  trace::sources from;
  trace::filter wanted;     ///< printing ends after its count
  std::uint64_t lines = 0;  ///< of the earlier records
  bool follows = true;      ///< until no process of the run is left on this machine, or SIGINT or SIGTERM
};

/// Prints events as lines of fixed columns, or as JSON objects. Faults of kind input: nothing to read.
result<int> tail_trace(const tail_order& order, console& out);

}  // namespace troupe::apps
