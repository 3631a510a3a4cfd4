// Options for saving checkpoints and resuming from one.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/master/run_observer.hpp"
#include "base/result.hpp"
#include "model/checkpoint/resume.hpp"
#include "model/job.hpp"

namespace troupe::launch {

struct checkpoint_order {
  std::optional<std::string> save;  ///< the folder for checkpoints
  /// When checkpoints are saved, and with how much memory; without the opened folder.
  actors::run_checkpoints how;
  /// The checkpoint to resume from.
  std::optional<model::resume_point> resume;
};

/// Reads the options of the set `checkpoints` from `given` (of command line and job file), and the checkpoint to resume
/// from.
result<checkpoint_order> read_checkpoint_options(const std::vector<model::setting>& given);

/// Opens the folder for checkpoints, if the order has one.
result<actors::run_checkpoints> open_checkpoints(const checkpoint_order& order);

/// Returns advice on how to continue a lost run: with `command`, which starts it, and these options.
std::string resume_advice(const checkpoint_order& order, const std::string& command);

}  // namespace troupe::launch
