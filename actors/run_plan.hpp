// The plan of a run: its job, its data, and where it begins.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/run_observer.hpp"
#include "model/job.hpp"
#include "protocol/header.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

struct run_plan {
  std::uint64_t run = 0;
  /// The message that requested the run.
  msg::message_id cause = 0;
  model::job what;
  std::shared_ptr<const model::dataset> data;
  bool return_weights = false;
  std::uint64_t total_steps = 0;
  run_checkpoints checkpoints;
  /// Steps that the resumed run has done.
  std::uint64_t steps_done = 0;
  std::vector<msg::trainer_position> positions = {};  ///< by rank
};

/// Returns the plan of the run that `order` requests. Errors: the job or its data are invalid, or the run cannot resume
/// from the checkpoint.
caf::expected<run_plan> plan_run(std::uint64_t run, const troupe::msg::run& order, const run_checkpoints& checkpoints);

/// Returns a checkpoint's name for the weights of `parameter` (buffer 0) or their optimizer buffer `buffer` - 1.
std::string dense_tensor_name(const std::string& parameter, std::size_t buffer);

}  // namespace troupe::actors
