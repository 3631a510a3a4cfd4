// What the stages of a pipeline begin with and save: stretches of the whole network's numbers, so that a run may be
// resumed with other stages. With one stage, all of them.

#pragma once

#include <cstdint>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// What a stage begins with.
struct stage_start {
  std::vector<float> parameters;
  std::vector<float> buffers;      ///< empty: the network's initial ones
  std::vector<msg::tensor> saved;  ///< as `trained_parameters::state` has them; empty: none
};

/// Returns the start of a job's stage: from the data's initial weights or those of the seed, and a checkpoint's state
/// (`from.dense`). Fails if these are of another network. Requires: the job has its `stages`, or is no pipeline.
caf::expected<stage_start> start_of_stage(const model::job& what, const model::dataset& data,
                                          const msg::trainer_position& from, std::uint32_t stage);

/// Returns the state of the whole network from those of its stages, in order. `buffers`: how many of each the optimizer
/// has.
std::vector<msg::tensor> joined_states(const std::vector<std::vector<msg::tensor>>& stages, std::size_t buffers);

}  // namespace troupe::actors
