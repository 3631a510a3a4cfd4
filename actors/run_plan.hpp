// What a run is to do: its job, its data, and where it begins.

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
  /// The message that asked for it.
  msg::message_id cause = 0;
  model::job what;
  std::shared_ptr<const model::dataset> data;
  bool return_weights = false;
  std::uint64_t total_steps = 0;
  run_checkpoints checkpoints;
  /// By the run that this one goes on with.
  std::uint64_t steps_done = 0;
  std::vector<msg::trainer_position> positions = {};  ///< by rank
};

/// The plan of the run that `order` asks for. Errors: the job or its data are wrong, or it cannot go on from the
/// checkpoint that it is to go on from.
caf::expected<run_plan> plan_run(std::uint64_t run, const troupe::msg::run& order, const run_checkpoints& checkpoints);

/// How a checkpoint calls the weights of `parameter` (buffer 0), or the optimizer's buffer `buffer` - 1 for them.
std::string dense_tensor_name(const std::string& parameter, std::size_t buffer);

}  // namespace troupe::actors
