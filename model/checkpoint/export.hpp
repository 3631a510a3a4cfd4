// Exports a checkpoint as a plain safetensors file.

#pragma once

#include <string>

#include "model/checkpoint/tensors.hpp"
#include "model/output_file.hpp"

namespace troupe::model {

struct export_options {
  /// Leave out the optimizer's state, and other state of a program's trainers (`is_trainer_position`).
  bool weights_only = false;
  /// Replace an existing file.
  bool overwrite = false;
};

/// Writes every table whole and in row order ("table.0.weight" [rows, columns], "table.0.state.0"), and the dense
/// tensors under their names. Metadata: "step", and the job's settings as "job.NAME". Uses a few MiB and a few rows of
/// memory, for tables of any size. The file is called PATH.part until it is complete. Faults: kind input for a wrong
/// path and for files of the checkpoint, kind run for writing. Thread: any.
result<written_file> export_checkpoint(const checkpoint& saved, const std::string& path, export_options options);

}  // namespace troupe::model
