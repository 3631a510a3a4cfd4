// `troupe train --print-network`: the network of a job, layer by layer.

#pragma once

#include "cluster/launch/console.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::apps {

/// Prints tables and layers with their shapes, parameters and multiply-adds of a sample's forward pass: as a table, or
/// with --json as one event each. Requires: the job fits `spec` (`check_network`).
void print_network(const model::job& what, const model::data_spec& spec, launch::console& out);

}  // namespace troupe::apps
