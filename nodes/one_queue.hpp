// A scheduler for few workers: one queue, at which workers without an actor to run linger before they sleep.

#pragma once

#include <caf/actor_system_config.hpp>

namespace troupe::nodes {

/// Has the system use it. CAF's own shared queue has each message wake a worker that has nothing to do: where cores
/// sleep deeply, small steps then take more than twice as long.
void use_one_queue(caf::actor_system_config& config);

}  // namespace troupe::nodes
