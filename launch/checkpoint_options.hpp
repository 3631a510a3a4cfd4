// Options for saving checkpoints and going on from one.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/run_observer.hpp"
#include "base/result.hpp"
#include "model/checkpoint/resume.hpp"
#include "model/job.hpp"

namespace troupe::launch {

struct checkpoint_order {
  /// Folder for checkpoints, and the steps between two of them (0: only at the end).
  std::optional<std::string> save;
  std::uint64_t every = 0;
  /// Seconds between two of them (0: none by time), or that these follow from what they cost; and the mean time between
  /// failures in seconds, for that (0: a day, divided by the number of hosts).
  double seconds = 0;
  bool automatic = false;
  double mtbf = 0;
  /// Bytes that each server may take for what changes while a checkpoint is written; null: it decides.
  std::optional<std::uint64_t> memory;
  /// The checkpoint to resume from.
  std::optional<model::resume_point> resume;
};

/// Reads the options of the set `checkpoints` from `given` (of command line and job file), and the checkpoint to resume
/// from.
result<checkpoint_order> read_checkpoint_options(const std::vector<model::setting>& given);

/// Opens the folder for checkpoints, if the order has one.
result<actors::run_checkpoints> open_checkpoints(const checkpoint_order& order);

/// Returns how to go on after a run that was lost: by `command`, which begins it, with these options.
std::string resume_advice(const checkpoint_order& order, const std::string& command);

}  // namespace troupe::launch
