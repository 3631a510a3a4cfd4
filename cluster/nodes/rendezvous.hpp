// A run whose servers and trainers are in other processes: accepts their connections for the master.

#pragma once

#include <caf/actor_system.hpp>
#include <functional>

#include "cluster/nodes/run.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// Spawns a master, listens for members, calls `run_by`, which has the master do the run and blocks until it is over,
/// and returns its result. Then waits a moment for the nodes to leave. Faults: cannot listen at the address.
result<actors::run_summary> run_with_nodes(
    caf::actor_system& system, std::uint64_t run, const actors::planner& plan, const run_options& options,
    const std::function<result<actors::run_summary>(const msg::master_actor&)>& run_by);

}  // namespace troupe::nodes
