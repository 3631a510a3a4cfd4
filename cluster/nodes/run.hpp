// A run led by this process: spawns master, parameter servers, trainers and the allreduce group, watches them, and
// returns when all have ended.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/common/batches_ahead.hpp"
#include "actors/common/compute_devices.hpp"
#include "actors/common/replay_gate.hpp"
#include "actors/master/membership.hpp"
#include "actors/master/run_observer.hpp"
#include "actors/master/run_plan.hpp"
#include "actors/trainer/job_trainer.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "base/result.hpp"
#include "base/socket_address.hpp"
#include "base/stop_request.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/links/endpoint.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::nodes {

/// Threads and devices of a process.
struct machine_options {
  std::size_t threads = 0;  ///< workers of the actor system; 0: as many as cores
  actors::compute_devices devices;
  actors::batch_threads_request batch_threads;  ///< what prepares batches ahead, if trainers are here
};

/// Connections between the processes of a run, and their timeouts.
struct network_options {
  links::credentials mine;
  /// A process that is silent for this long counts as dead.
  std::chrono::milliseconds dead_after{5000};
  /// Limit for the answer to one message.
  std::chrono::milliseconds request_timeout{300'000};
};

/// Members of a run that join from other processes. If they are the run's own, all share this machine's memory. `run`
/// sets the rules' request timeout, from `network`, and their callbacks about connections.
struct gather_options : actors::node_rules {
  /// Where the master listens; port 0: any free one.
  links::endpoint listen;
  network_options network;
  /// Listening sockets to use instead of `listen`; they outlive the run. May be null.
  std::shared_ptr<const listening_sockets> sockets = {};
  /// Called with the addresses, at least one, when members may join.
  std::function<void(const std::vector<links::endpoint>&)> on_listening;
  /// Polled until the run has begun: returns why missing members will not come, if that is known.
  std::function<std::optional<std::string>()> hopeless;
};

/// When to write a diagnosis (cluster/nodes/diagnosis.hpp); needs a recording.
struct watch_options {
  /// Limit for a step; null: learned from earlier steps.
  std::optional<std::chrono::milliseconds> step_timeout;
  /// Returns whether a user has asked for one since the last call. May be null.
  std::function<bool()> wanted;
  /// Called on the thread that runs the job, with a line: a diagnosis was written, or could not be.
  std::function<void(const std::string&)> on_diagnosis;
};

struct run_options : machine_options {
  /// Return the final weights in the summary.
  bool return_weights = false;
  actors::run_checkpoints checkpoints;
  actors::run_observer observer;
  /// Null: nothing is recorded. Requires: it outlives the run.
  trace::recorder* recorder = nullptr;
  watch_options watch;
  /// The recorded run to compare with; null: none. Requires: it outlives the run, which is in this process only.
  actors::replay_control* replayed = nullptr;
  /// Null: all actors are in this process.
  std::optional<gather_options> gather;
};

/// What to run; `run_options` says how.
struct run_request {
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;  ///< all ranks
  std::uint32_t parts = 1;     ///< parts per replica of the network; each is a rank
  /// The name of a user's program; empty: `troupe` itself.
  std::string program = {};
  /// As recordings and messages contain them.
  msg::arguments settings = {};
  std::string data_digest = {};
  actors::planner plan = actors::plan_job;
  actors::trainer_maker make_trainer = actors::program_trainer;
};

/// Returns the result of a run that was asked to stop before it began.
actors::run_summary unbegun(const run_options& options);

/// Refuses a run of `processes` further processes if each may open too few descriptors: some libraries would end the
/// process.
result<void> check_descriptors(std::size_t processes);

/// Runs `what` to its end; blocks until all actors have ended. `user_stop` may be null. Faults: kind input, of the
/// plan; kind run for an actor that failed, with actor, step and cause.
result<actors::run_summary> run(const run_request& what, const run_options& options, const stop_request* user_stop);

}  // namespace troupe::nodes
