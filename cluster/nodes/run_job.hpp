// Runs a job: the run of the program's own trainers.

#pragma once

#include <memory>

#include "cluster/nodes/run.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::nodes {

/// Checks whether `what` can run with these options, before anything is made or written: data, network, memory,
/// threads, the checkpoint to resume from. Returns the data set; while the caller holds it, `run_job` does not read it
/// again. Faults: of kind input.
result<std::shared_ptr<const model::dataset>> check_run(const model::job& what, const run_options& options);

/// Runs `what` as `run` does. Further faults: those of `check_run`; kind input for unusable data, kind run if a row of
/// the program's own data set throws.
result<actors::run_summary> run_job(const model::job& what, const run_options& options, const stop_request* user_stop);

}  // namespace troupe::nodes
