// How the parts of a network, stages of a pipeline and their slices, spent the time between each step's first pass of a
// micro-batch and its last one: on passes, waits for other slices, other work, nothing.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

struct pipeline_use {
  struct stage {
    std::uint16_t actor = 0;
    std::uint64_t forward = 0;  ///< micro-batches
    std::uint64_t backward = 0;
    trace::nanoseconds passes = 0;      ///< without waiting
    trace::nanoseconds for_slices = 0;  ///< waiting for other slices during passes
    trace::nanoseconds other = 0;       ///< other work
  };

  std::vector<stage> stages;      ///< by actor; empty: there was no pipeline
  std::uint64_t steps = 0;        ///< with passes
  trace::nanoseconds length = 0;  ///< sum over all steps, from the first pass to the last one

  /// The share of the stages' time without passes.
  double bubble() const;
};

pipeline_use find_pipeline_use(const trace::recording& run);

/// A table for a terminal; empty if there was no pipeline.
std::string pipeline_text(const trace::recording& run, const pipeline_use& what, std::size_t limit);
boost::json::object pipeline_json(const trace::recording& run, const pipeline_use& what);

}  // namespace troupe::analysis
