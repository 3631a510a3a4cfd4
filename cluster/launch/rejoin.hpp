// Members of a run that survive the loss of others, or of the master: they rejoin for the next attempt.

#pragma once

#include "base/result.hpp"
#include "cluster/launch/console.hpp"
#include "cluster/launch/trace_options.hpp"
#include "cluster/nodes/node.hpp"

namespace troupe::launch {

/// Takes part in a run, in each of its attempts, and returns when the run is over for this process. `recording`: each
/// attempt has its own recording, in the same folder if the user has named one. `quietly`: another process reports to
/// the user where recordings are. Faults: why it could not join or rejoin, or why the run failed.
result<void> take_part(nodes::node_options options, const trace_order& recording, bool quietly, console& out);

}  // namespace troupe::launch
