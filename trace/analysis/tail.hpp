// Events as lines of fixed columns, for a user who watches a run.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/trace.hpp"
#include "trace/record/filter.hpp"

namespace troupe::analysis {

/// An event, and how many recorded messages were in its actor's queue when it began.
struct tail_event {
  const trace::event* what = nullptr;
  std::uint64_t queue_depth = 0;
};

/// The events whose step, actor and type (type_of) pass the filter; its count is not applied. By begin. Requires: `run`
/// outlives them.
std::vector<tail_event> tail_events(const trace::recording& run, const trace::filter& wanted);

/// The names of the columns, without a newline: time since the recording began, step, actor, kind, type, sender, bytes,
/// time queued, time worked, messages in the queue, and the message that caused it.
std::string tail_header();
std::string tail_line(const trace::recording& run, const tail_event& one);
boost::json::object tail_json(const trace::recording& run, const tail_event& one);

}  // namespace troupe::analysis
