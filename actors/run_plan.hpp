// The plan of a run: its members, its tables, and where it begins.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/compute_devices.hpp"
#include "actors/run_observer.hpp"
#include "model/epoch_plan.hpp"
#include "model/job.hpp"
#include "model/metrics.hpp"
#include "nn/parameters.hpp"
#include "protocol/header.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// A table that the servers make, shard by shard.
struct planned_table {
  msg::module_spec spec;
  std::uint64_t rows = 0;
  std::uint64_t dim = 0;
  std::vector<std::uint32_t> servers = {};  ///< the rank of each shard's server
  model::table_split split = model::table_split::rows;

  model::shard_of shard(std::size_t index) const {
    return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(servers.size()), split};
  }
};

/// What runs beside the trainers in the master's process. Thread: the master's.
class run_companion {
 public:
  virtual ~run_companion() = default;
  /// Training begins. `modules`: the shards of each table or module of the plan. `fail`, from any thread: ends the run.
  virtual void begin(caf::actor_system& system, std::uint64_t run,
                     const std::vector<msg::parameter_server_actor>& servers,
                     const std::vector<std::vector<msg::module_ref>>& modules,
                     std::function<void(const caf::error&)> fail) = 0;
  /// All trainers have ended. The run goes on when `then` is called, from any thread.
  virtual void end(std::function<void()> then) = 0;
  /// The run is over, perhaps by an error.
  virtual void stop() = 0;
};

struct run_plan {
  std::uint64_t run = 0;
  /// The message that requested the run.
  msg::message_id cause = 0;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  /// The parts of each trainer's network, which as many members have: replica r's part p is member r x parts + p.
  std::uint32_t parts = 1;
  /// So many neighbouring parts are slices of one stage.
  std::uint32_t slices = 1;
  std::uint32_t members() const { return trainers * parts; }
  /// What trainers are told, checkpoints keep, and members that join must agree with.
  msg::arguments settings = {};
  /// The digest of the rows of the data set; empty: there is none.
  std::string data_digest = {};
  /// Returns its `row_index`. May be null.
  std::function<std::vector<std::uint64_t>()> row_index = {};
  std::vector<planned_table> tables = {};
  /// Global steps in an optimizer step of the tables, and by how many optimizer steps lookups may run ahead.
  std::uint32_t accumulate = 1;
  std::uint32_t staleness = 0;
  /// Returns the weights that the tables begin with, if they are given. May be null.
  std::function<std::optional<model::initial_weights>()> initial_weights = {};
  /// Modules of one server may call those of another.
  bool servers_talk = false;
  /// Where members that leave it to `auto` compute.
  device_advice devices = {};
  /// The tensors of the dense part.
  std::vector<nn::parameter> dense = {};
  std::vector<nn::parameter> dense_buffers = {};  ///< not trained, such as running means
  model::figure_sources figures = {};
  /// Null: the run has no epochs, and its trainers decide when it ends.
  std::optional<model::epoch_plan> epochs = {};
  std::uint64_t total_steps = 0;
  /// The step after which the number of trainers changes, as the job has it, and to what; 0: it does not.
  std::uint64_t changes_after = 0;
  std::uint32_t changes_to = 0;
  /// Returns why the run cannot go on with so many trainers after a step; null if it can. Null: the run is a program's,
  /// which never can.
  std::function<std::optional<std::string>(std::uint32_t trainers, std::uint64_t step)> check_trainers = {};
  bool return_weights = false;
  run_checkpoints checkpoints = {};
  /// May be null.
  std::shared_ptr<run_companion> companion = {};
  /// Steps that the resumed run has done.
  std::uint64_t steps_done = 0;
  /// How many of these steps had gradients for each server, by its rank; empty: all of them.
  std::vector<std::uint64_t> server_steps = {};
  std::vector<msg::trainer_position> positions = {};  ///< by rank
  /// By rank: of the tensors in the position, where the trainers decide what is saved; else empty.
  std::vector<std::vector<msg::named_shape>> names = {};
};

/// Makes the plan of the run that an order requests. Errors: what is ordered is invalid.
using planner =
    std::function<caf::expected<run_plan>(const troupe::msg::run& order, const run_checkpoints& checkpoints)>;

/// The planner of jobs. Errors: the job or its data are invalid, or the run cannot resume from the checkpoint.
caf::expected<run_plan> plan_job(const troupe::msg::run& order, const run_checkpoints& checkpoints);

/// Returns a plan of what a job on these data consists of.
run_plan parts_of(const model::job& what, const std::shared_ptr<const model::dataset>& data);

/// Returns a checkpoint's name for the weights of `parameter` (buffer 0) or their optimizer buffer `buffer` - 1.
std::string dense_tensor_name(const std::string& parameter, std::size_t buffer);

}  // namespace troupe::actors
