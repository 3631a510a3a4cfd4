// What a run reports while it runs and at its end, and where it saves checkpoints.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "model/checkpoint/store.hpp"
#include "model/data.hpp"
#include "model/metrics.hpp"

namespace troupe::actors {

/// A run's progress, also within an epoch.
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
  double seconds = 0;  ///< of the training loop alone
  model::epoch_figures figures;
  std::uint64_t skipped_steps = 0;  ///< optimizer steps skipped because of a NaN or Inf
  /// How many optimizer steps the rows of a training lookup lacked: maximum, sum, and the number of lookups.
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
  double setup_seconds = 0;      ///< from the call of `run_job` to the first step
  double seconds = 0;            ///< of the training loop alone
  model::epoch_figures figures;  ///< of the last epoch
  std::string weights_digest;
  bool stopped = false;
  std::uint64_t skipped_steps = 0;  ///< optimizer steps skipped because of a NaN or Inf
  /// How many optimizer steps the rows of a training lookup lacked: maximum and mean; in a resumed run, since it was
  /// resumed.
  std::uint32_t staleness_max = 0;
  double staleness_mean = 0;
  /// The final weights, if requested: each table [rows, dim], and rank 0's dense weights in `initial_weights` order.
  std::optional<model::initial_weights> weights;
  std::uint32_t goes_on_with = 0;  ///< not 0: an elastic run continues with this number of trainers, in another attempt
  /// The idle share of the stages' time; none: networks are not cut into stages.
  std::optional<double> bubble;
};

/// A checkpoint, taken or failed.
struct checkpoint_summary {
  std::uint64_t step = 0;
  double seconds = 0;
  std::optional<fault> problem;  ///< why it failed; training continues
  double stood_still = 0;        ///< the longest time in seconds for which a trainer stood still
};

/// Where a run saves checkpoints, and the checkpoint that it resumes from.
struct run_checkpoints {
  /// Null: the run saves none.
  std::shared_ptr<model::checkpoint_store> store;
  /// Steps between checkpoints; 0: only at the end.
  std::uint64_t every = 0;
  /// Seconds between checkpoints, in addition to `every`; 0: none by time.
  double seconds = 0;
  /// If `automatic`, the seconds between checkpoints follow from their cost and from `mtbf`: the mean time between
  /// failures in seconds; 0: a day, divided by the number of hosts.
  bool automatic = false;
  double mtbf = 0;
  /// The bytes that each server may use for copies of rows that change while a checkpoint is written; msg::any_memory:
  /// the server decides.
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();
  /// Null: the run starts anew. Requires: `first_difference` finds none between its job and the run's.
  std::shared_ptr<const model::checkpoint> from;
};

/// Called on the actor system's threads, never two at a time.
struct run_observer {
  std::function<void(std::uint64_t step)> on_begin;      ///< training begins, after that step
  std::function<void(const run_progress&)> on_progress;  ///< at most 10 a second
  std::function<void(const epoch_summary&)> on_epoch;
  std::function<void(const checkpoint_summary&)> on_checkpoint;
  std::function<void(std::uint64_t step)> on_failure;  ///< the run fails, in that step
  std::function<void(const std::string&)> on_note;     ///< one line for each member that joins or leaves
  std::function<void(const std::string&)> on_trouble;  ///< a process reports that something takes too long
  std::function<void()> on_stop;                       ///< a stop of the run has been requested
};

/// Makes the observer set `has_begun` when training begins, in addition to its former call.
inline void note_begin(run_observer& observer, bool& has_begun) {
  observer.on_begin = [&has_begun, then = std::move(observer.on_begin)](std::uint64_t step) {
    has_begun = true;
    if (then) then(step);
  };
}

}  // namespace troupe::actors
