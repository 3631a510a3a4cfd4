// A run as `troupe train` and `troupe master` have it: checked, shown as it goes, and reported.

#pragma once

#include <optional>
#include <string>

#include "apps/subcommand.hpp"
#include "apps/train_options.hpp"
#include "cluster/run.hpp"

namespace troupe::apps {

/// Runs the job and reports it. `gather`: its servers and trainers are other processes. The exit code says whether all
/// of its logs and checkpoints were written.
result<int> run_train_order(const train_order& order, std::optional<cluster::gather_options> gather,
                            const program_context& context);

/// What to do when a run has ended early, in words; `command` is how this one was started.
std::string resume_advice(const train_order& order, const std::string& command);

}  // namespace troupe::apps
