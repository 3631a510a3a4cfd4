// What is told of a run while it goes and at its end, and where it saves.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/checkpoint/store.hpp"
#include "model/data.hpp"
#include "model/metrics.hpp"

namespace troupe::actors {

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
  model::epoch_figures figures;
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
  double setup_seconds = 0;      ///< from the call of `run_job` to the first step
  double seconds = 0;            ///< training loop alone
  model::epoch_figures figures;  ///< of the last epoch
  std::string weights_digest;
  bool stopped = false;
  std::uint64_t skipped_steps = 0;  ///< optimizer steps left out for a NaN or Inf
  /// Optimizer steps that the rows of a training lookup lacked: the most, and the mean. A run that goes on from a
  /// checkpoint counts anew.
  std::uint32_t staleness_max = 0;
  double staleness_mean = 0;
  /// The final weights, if asked for: each table [rows, dim], and rank 0's dense weights in `initial_weights` order.
  std::optional<model::initial_weights> weights;
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
  std::shared_ptr<model::checkpoint_store> store;
  /// Steps between checkpoints; 0: only at the end.
  std::uint64_t every = 0;
  /// Null: from the beginning. Its job differs in nothing that `first_difference` looks at.
  std::shared_ptr<const model::checkpoint> from;
};

/// Called on the actor system's threads, never two at a time.
struct run_observer {
  std::function<void(const run_progress&)> on_progress;  ///< at most 10 a second
  std::function<void(const epoch_summary&)> on_epoch;
  std::function<void(const checkpoint_summary&)> on_checkpoint;
  std::function<void(const std::string&)> on_note;     ///< who has come and gone, a line each
  std::function<void(const std::string&)> on_trouble;  ///< a process tells that something takes too long
};

}  // namespace troupe::actors
