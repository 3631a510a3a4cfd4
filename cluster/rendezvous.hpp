// A run whose servers and trainers are in other processes: takes their connections, and hands them to the master.

#pragma once

#include <caf/actor_system.hpp>
#include <functional>

#include "cluster/run.hpp"
#include "protocol/messages.hpp"

namespace troupe::cluster {

/// Spawns a master that waits for members, listens for them, and returns what `run_by` returns, which has the master do
/// the run and blocks until it is over. Waits a moment for the nodes to leave. Faults: the address cannot be had.
result<actors::run_summary> run_with_nodes(
    caf::actor_system& system, std::uint64_t run, const run_options& options,
    const std::function<result<actors::run_summary>(const msg::master_actor&)>& run_by);

}  // namespace troupe::cluster
