// A run at one look: its figures, its actors and who talks to whom.

#pragma once

#include <boost/json/object.hpp>
#include <map>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// The last value of each metric.
std::map<trace::metric_name, double> last_figures(const trace::recording& run);

/// The run: processes, how they ended, what was recorded and lost, and key figures.
boost::json::object run_json(const trace::recording& of);

/// Actors, the edges between them and the credit of links, with how busy each was in the last `recent` of the
/// recording: queues and credits say something about a moment, not about a run. Times of an edge are sums.
boost::json::object topology_json(const trace::recording& of, trace::nanoseconds recent);

/// Messages, bytes and times, summed up by sender, receiver and type over the whole recording.
boost::json::object traffic_json(const trace::recording& of);

}  // namespace troupe::analysis
