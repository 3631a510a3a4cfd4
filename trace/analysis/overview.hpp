// What a page shows about a run: its figures, its actors and the messages between them, and its steps as bars and
// curves.

#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <map>

#include "trace/analysis/steps.hpp"

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

/// The newest `last` steps with their times, and p50 and p95 over all. If trainers do not commit together, each step
/// names its trainer.
boost::json::object steps_json(const trace::recording& of, const step_windows& all, std::size_t last);

/// What each actor did during a step: a row per actor with bars, at most `bars_most` in all; the shortest are left out.
boost::json::object waterfall_json(const trace::recording& of, const step_window& step, std::size_t bars_most = 4000);

/// Loss, AUC, samples a second and so on by step, and the time of each step. Each is `{name, unit, points: [[step,
/// value], ...]}` with at most about `points_most` points; thinning keeps local minima and maxima.
boost::json::array curves_of(const trace::recording& of, const step_windows& steps, std::size_t points_most = 1000);

}  // namespace troupe::analysis
