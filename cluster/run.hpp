// One run of a job in this process: spawns master, parameter servers, trainers and the allreduce group, watches them,
// and returns when all of them are gone.

#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/compute_devices.hpp"
#include "actors/replay_gate.hpp"
#include "actors/run_observer.hpp"
#include "base/result.hpp"
#include "links/credentials.hpp"
#include "links/endpoint.hpp"
#include "model/job.hpp"
#include "model/metrics.hpp"
#include "trace/recorder.hpp"

namespace troupe::cluster {

/// How processes of a run find each other, and how long they wait.
struct network_options {
  links::credentials mine;
  /// A process that has been silent for this long is taken for dead.
  std::chrono::milliseconds dead_after{5000};
  /// For the answer to any one message.
  std::chrono::milliseconds request_timeout{300'000};
};

/// Members of a run that come from other processes.
struct gather_options {
  /// Where they find the master; port 0: any free one.
  links::endpoint listen;
  network_options network;
  /// Servers and trainers share this machine's memory; nobody but those who were started for a rank may come.
  bool on_this_machine = false;
  /// What to run to go on from the last checkpoint, in words; told when a process has died.
  std::string resume;
  /// Called when they may come, with the port that was found.
  std::function<void(const links::endpoint&)> on_listening;
  /// Asked now and then until the run has begun: why those who are missing will not come, if that is known.
  std::function<std::optional<std::string>()> hopeless;
};

/// When a diagnosis is written (cluster/diagnosis.hpp), where something is recorded.
struct watch_options {
  /// How long a step may take; null: learned from earlier ones.
  std::optional<std::chrono::milliseconds> step_timeout;
  /// Whether somebody asks for one, since it was last called. May be null.
  std::function<bool()> wanted;
  /// Called on the thread that runs the job: one has been written, or could not be; a line.
  std::function<void(const std::string&)> on_diagnosis;
};

struct run_options {
  /// Worker threads of the actor system; 0: as many as there are cores.
  std::size_t threads = 0;
  /// Return the final weights in the summary.
  bool return_weights = false;
  actors::run_checkpoints checkpoints;
  actors::run_observer observer;
  /// What the actors of this process compute on.
  actors::compute_devices devices;
  /// Null: nothing is recorded. Must outlive the run.
  trace::recorder* recorder = nullptr;
  watch_options watch;
  /// What the run is held to; null: nothing. Must outlive the run, which is in this process.
  actors::replay_control* replayed = nullptr;
  /// Null: all actors are in this process.
  std::optional<gather_options> gather;
};

/// A run in progress that another thread may ask to stop.
class stop_request {
 public:
  /// Finish the step under way, then end the run. May be called from any thread, any number of times.
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};
};

/// What speaks against running `what` with these options, as far as it can be told before anything is made or written:
/// data, network, memory, threads, the checkpoint to go on from. Else the data set; `run_job` does not read it again
/// while somebody holds it. Faults are of kind input.
result<std::shared_ptr<const model::dataset>> check_run(const model::job& what, const run_options& options);

/// Runs `what` to its end and blocks until all actors are gone. `stop_wish` may be null.
/// Faults: those of `check_run`, kind input for data that cannot work, kind run for an actor that failed: the message
/// names actor, step and cause.
result<actors::run_summary> run_job(const model::job& what, const run_options& options, const stop_request* stop_wish);

}  // namespace troupe::cluster
