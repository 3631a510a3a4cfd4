// One run of a job in this process: spawns master, parameter servers, trainers and the allreduce group, watches them,
// and returns when all of them are gone.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/compute_devices.hpp"
#include "base/result.hpp"
#include "links/credentials.hpp"
#include "links/endpoint.hpp"
#include "model/checkpoint/store.hpp"
#include "model/job.hpp"
#include "model/metrics.hpp"
#include "trace/recorder.hpp"

namespace troupe {

class replay;

/// Where a run stands, between epochs too.
struct run_progress {
  std::uint64_t step = 0;  ///< global steps done
  std::uint64_t total_steps = 0;
  double loss = 0;           ///< mean since the last progress report
  double samples_per_s = 0;  ///< all trainers, since the epoch began
  double seconds_left = 0;   ///< estimate for the training loop
};

/// One finished epoch.
struct epoch_summary {
  std::uint64_t epoch = 0;  ///< 1 for the first
  std::uint64_t step = 0;   ///< global step at its end
  std::uint64_t steps = 0;  ///< global steps of this epoch
  std::uint64_t samples = 0;
  double seconds = 0;  ///< training loop alone
  epoch_figures figures;
  std::uint64_t skipped_steps = 0;  ///< optimizer steps left out for a NaN or Inf
  /// Optimizer steps that the rows of a training lookup lacked: the most, the sum, and over how many lookups.
  std::uint32_t staleness_max = 0;
  std::uint64_t staleness_sum = 0;
  std::uint64_t lookups = 0;
  /// Each rank's loss at each of the epoch's steps; NaN where the rank had no batch.
  std::vector<std::vector<double>> losses;
};

/// A finished (or stopped) run.
struct run_summary {
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double setup_seconds = 0;  ///< from the call of `run_job` to the first step
  double seconds = 0;        ///< training loop alone
  epoch_figures figures;     ///< of the last epoch
  std::string weights_digest;
  bool stopped = false;
  std::uint64_t skipped_steps = 0;  ///< optimizer steps left out for a NaN or Inf
  /// Optimizer steps that the rows of a training lookup lacked: the most, and the mean. A run that goes on from a
  /// checkpoint counts anew.
  std::uint32_t staleness_max = 0;
  double staleness_mean = 0;
  /// The final weights, if asked for: each table [rows, dim], and rank 0's dense weights in `initial_weights` order.
  std::optional<initial_weights> weights;
};

/// A checkpoint, taken or failed.
struct checkpoint_summary {
  std::uint64_t step = 0;
  double seconds = 0;
  std::optional<fault> problem;  ///< why it could not be taken; training goes on
};

/// Where a run saves, and from where it goes on.
struct run_checkpoints {
  /// Null: nowhere.
  std::shared_ptr<checkpoint_store> store;
  /// Steps between checkpoints; 0: only at the end.
  std::uint64_t every = 0;
  /// Null: from the beginning. Its job differs in nothing that `first_difference` looks at.
  std::shared_ptr<const checkpoint> from;
};

/// Called on the actor system's threads, never two at a time.
struct run_observer {
  std::function<void(const run_progress&)> on_progress;  ///< at most 10 a second
  std::function<void(const epoch_summary&)> on_epoch;
  std::function<void(const checkpoint_summary&)> on_checkpoint;
  std::function<void(const std::string&)> on_note;     ///< who has come and gone, a line each
  std::function<void(const std::string&)> on_trouble;  ///< a process tells that something takes too long
};

/// How processes of a run find each other, and how long they wait.
struct network_options {
  credentials mine;
  /// A process that has been silent for this long is taken for dead.
  std::chrono::milliseconds dead_after{5000};
  /// For the answer to any one message.
  std::chrono::milliseconds request_timeout{300'000};
};

/// Members of a run that come from other processes.
struct gather_options {
  /// Where they find the master; port 0: any free one.
  endpoint listen;
  network_options network;
  /// Servers and trainers share this machine's memory; nobody but those who were started for a rank may come.
  bool on_this_machine = false;
  /// What to run to go on from the last checkpoint, in words; told when a process has died.
  std::string resume;
  /// Called when they may come, with the port that was found.
  std::function<void(const endpoint&)> on_listening;
  /// Asked now and then until the run has begun: why those who are missing will not come, if that is known.
  std::function<std::optional<std::string>()> hopeless;
};

/// When a diagnosis is written (actors/diagnosis.hpp), where something is recorded.
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
  run_checkpoints checkpoints;
  run_observer observer;
  /// What the actors of this process compute on.
  compute_devices devices;
  /// Null: nothing is recorded. Must outlive the run.
  trace::recorder* recorder = nullptr;
  watch_options watch;
  /// What the run is held to; null: nothing. Must outlive the run, which is in this process.
  replay* replayed = nullptr;
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
result<std::shared_ptr<const dataset>> check_run(const job& what, const run_options& options);

/// Runs `what` to its end and blocks until all actors are gone. `stop_wish` may be null.
/// Faults: those of `check_run`, kind input for data that cannot work, kind run for an actor that failed: the message
/// names actor, step and cause.
result<run_summary> run_job(const job& what, const run_options& options, const stop_request* stop_wish);

}  // namespace troupe
