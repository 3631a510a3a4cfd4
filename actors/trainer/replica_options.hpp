// The options that a job sets for a replica's part of its network.

#pragma once

#include "actors/trainer/dense_replica.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "model/pipeline_executor.hpp"

namespace troupe::actors {

/// `slices`: the other slices of this part's stage, if any. Requires: the job has its `stages`, or is no pipeline.
dense_replica::options replica_options(const model::job& what, const model::data_spec& spec,
                                       const model::stage_place& at, nn::slice_sums* slices);

}  // namespace troupe::actors
