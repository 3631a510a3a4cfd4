// The common part of `troupe train` and `troupe master`: checks, runs and reports a job.

#pragma once

#include <optional>
#include <string>

#include "apps/subcommand.hpp"
#include "apps/train_options.hpp"
#include "cluster/nodes/run.hpp"

namespace troupe::apps {

/// Runs the job and reports it; ends early when `stop_asked`. `gather`: its servers and trainers are other processes.
/// The exit code depends on whether all logs and checkpoints were written.
result<int> run_train_order(const train_order& order, std::optional<nodes::gather_options> gather,
                            const program_context& context);

/// Reports a run that was asked to stop before it began. Returns the exit code.
int report_unbegun(const train_order& order, const program_context& context);

/// Returns advice after a run that ended early; `command` is the command line of this one.
std::string resume_command(const train_order& order, const std::string& command);

}  // namespace troupe::apps
