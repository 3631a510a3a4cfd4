// Events as lines of fixed columns, for who watches a run.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace.hpp"
#include "trace/filter.hpp"

namespace troupe::analysis {

/// An event to be shown, and how many messages lay in its actor's queue when it began, as far as these are recorded.
struct tail_event {
  const trace::event* what = nullptr;
  std::uint64_t queue_depth = 0;
};

/// Events that pass the filter (but for its count): for each, its actor, its step, and its type, which for other kinds
/// than messages is what `type` shows. By begin. The recording must outlive them.
std::vector<tail_event> tail_events(const trace::recording& run, const trace::filter& wanted);

/// The columns' names, without an end of line: time since the recording began, step, actor, kind, type, sender, bytes,
/// time queued, time worked, messages in the queue, and the message because of which it was sent.
std::string tail_header();
std::string tail_line(const trace::recording& run, const tail_event& one);
boost::json::object tail_json(const trace::recording& run, const tail_event& one);

}  // namespace troupe::analysis
