// What the page shows at one look: the run and its figures, its actors and who talks to whom.

#pragma once

#include <boost/json/object.hpp>

#include "page/source.hpp"
#include "page/traffic.hpp"

namespace troupe::page {

/// The run: processes, how they ended, what was recorded and lost, and key figures.
boost::json::object run_json(const reading& of);

/// Actors, the edges between them and the credit of links, with how busy each was in the last `recent` of the
/// recording: queues and credits say something about a moment, not about a run.
boost::json::object topology_json(const reading& of, trace::nanoseconds recent);

/// Messages and bytes by sender, receiver and type over the whole recording.
boost::json::object traffic_json(const trace::recording& of, const std::vector<flow>& flows);

/// What an actor is: its name without its number, as in `trainer`.
std::string role_of(std::string_view name);

}  // namespace troupe::page
