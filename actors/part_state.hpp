// What the parts of a network begin with and save: some of the whole network's numbers, so that a run may be resumed
// with other parts. With one part, all of them.

#pragma once

#include <cstdint>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "model/stages.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// What a part begins with.
struct part_start {
  std::vector<float> parameters;
  std::vector<float> buffers;      ///< empty: the network's initial ones
  std::vector<msg::tensor> saved;  ///< as `trained_parameters::state` has them; empty: none
};

/// Returns the start of a part of a job's network: from the data's initial weights or those of the seed, and a
/// checkpoint's state (`from.dense`). Fails if these are of another network. Requires: the job has its `stages`, or is
/// no pipeline.
caf::expected<part_start> start_of_part(const model::job& what, const model::dataset& data,
                                        const msg::trainer_position& from, std::uint32_t part);

/// Returns the state of the whole network from those of its parts, in order. `buffers`: how many of each the optimizer
/// has. Requires: the states are of these parts.
std::vector<msg::tensor> joined_states(const model::network_parts& of,
                                       const std::vector<std::vector<msg::tensor>>& states, std::size_t buffers);

}  // namespace troupe::actors
