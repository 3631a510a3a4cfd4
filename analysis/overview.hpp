// Overview of a run: its figures, its actors and the messages between them.

#pragma once

#include <boost/json/object.hpp>
#include <map>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// The last value of each metric.
std::map<trace::metric_name, double> last_figures(const trace::recording& run);

/// The run: its processes and how they ended, what was recorded and lost, and key figures.
boost::json::object run_json(const trace::recording& of);

/// Actors, the edges between them and the credit of links, over the last `recent` of the recording, since queues and
/// credits change from moment to moment. Times of an edge are sums.
boost::json::object topology_json(const trace::recording& of, trace::nanoseconds recent);

/// Messages, bytes and times by sender, receiver and type, summed up over the whole recording.
boost::json::object traffic_json(const trace::recording& of);

}  // namespace troupe::analysis
