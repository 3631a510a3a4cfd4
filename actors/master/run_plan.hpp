// The plan of a run: its members, its tables, and where it begins.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/common/compute_devices.hpp"
#include "actors/master/dense_layout.hpp"
#include "actors/master/run_observer.hpp"
#include "actors/master/table_plan.hpp"
#include "actors/master/trainer_changes.hpp"
#include "model/data.hpp"
#include "model/epoch_plan.hpp"
#include "model/job.hpp"
#include "model/metrics.hpp"
#include "protocol/header.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Work that runs beside the trainers in the master's process. Thread: the master's.
class run_companion {
 public:
  virtual ~run_companion() = default;
  /// Training begins. `modules`: the shards of each table or module of the plan. `fail`, from any thread: ends the run.
  virtual void begin(caf::actor_system& system, std::uint64_t run,
                     const std::vector<msg::parameter_server_actor>& servers,
                     const std::vector<std::vector<msg::module_ref>>& modules,
                     std::function<void(const caf::error&)> fail) = 0;
  /// All trainers have ended. The run continues when `then` is called, from any thread.
  virtual void end(std::function<void()> then) = 0;
  /// The run is over, perhaps by an error.
  virtual void stop() = 0;
};

/// Where a trainer starts.
struct trainer_start {
  msg::trainer_position position;
  /// The names of the position's tensors, if the trainers decide what is saved; else empty.
  std::vector<msg::named_shape> names = {};
};

struct run_plan {
  std::uint64_t run = 0;
  /// The message that requested the run.
  msg::message_id cause = 0;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  /// The number of parts of each trainer's network, each with its own member: replica r's part p is member r x parts +
  /// p.
  std::uint32_t parts = 1;
  /// The number of neighbouring parts that are slices of one stage.
  std::uint32_t slices = 1;
  std::uint32_t members() const { return trainers * parts; }
  /// The settings that trainers get, checkpoints keep, and joining members must agree with.
  msg::arguments settings = {};
  /// Null: the trainers of a program have their own.
  std::shared_ptr<const model::dataset> data = {};
  std::string data_digest() const { return data ? data->digest() : std::string(); }
  table_plan tables = {};
  /// Where members that choose `auto` compute.
  device_advice devices = {};
  dense_layout dense = {};
  model::figure_sources figures = {};
  /// Null: the run has no epochs, and its trainers decide when it ends.
  std::optional<model::epoch_plan> epochs = {};
  std::uint64_t total_steps = 0;
  trainer_rules changes = {};
  bool return_weights = false;
  run_checkpoints checkpoints = {};
  /// May be null.
  std::shared_ptr<run_companion> companion = {};
  /// Steps that the resumed run has done.
  std::uint64_t steps_done = 0;
  std::vector<trainer_start> starts = {};  ///< by trainer
};

/// Makes the plan of the run that an order requests. Errors: the order is invalid.
using planner =
    std::function<caf::expected<run_plan>(const troupe::msg::run& order, const run_checkpoints& checkpoints)>;

/// The planner of jobs. Errors: the job or its data are invalid, or the run cannot resume from the checkpoint.
caf::expected<run_plan> plan_job(const troupe::msg::run& order, const run_checkpoints& checkpoints);

/// Returns a plan that has the members, tables and dense part of a job on these data.
run_plan parts_of(const model::job& what, const std::shared_ptr<const model::dataset>& data);

}  // namespace troupe::actors
