// The state that each part of a network starts from and saves: its share of the whole network's numbers, so that a run
// can resume with another division into parts.

#pragma once

#include <cstdint>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "model/stages.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The initial state of a part.
struct part_start {
  std::vector<float> parameters;
  std::vector<float> buffers;      ///< empty: the network's initial ones
  std::vector<msg::tensor> saved;  ///< as returned by `trained_parameters::state`; empty: none
};

/// Returns the start of a part of a job's network: from the data's initial weights or those of the seed, and a
/// checkpoint's state (`from.dense`). Fails if these belong to another network. Requires: the job has its `stages`, or
/// is no pipeline.
caf::expected<part_start> start_of_part(const model::job& what, const model::dataset& data,
                                        const msg::trainer_position& from, std::uint32_t part);

/// Joins the states of a network's parts, in order, into the state of the whole network. `buffers`: the number of
/// optimizer buffers. Requires: the states belong to these parts.
std::vector<msg::tensor> joined_states(const model::network_parts& of,
                                       const std::vector<std::vector<msg::tensor>>& states, std::size_t buffers);

}  // namespace troupe::actors
