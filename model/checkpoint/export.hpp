// A checkpoint as one plain safetensors file, for whatever reads those.

#pragma once

#include <string>

#include "model/checkpoint/tensors.hpp"
#include "model/output_file.hpp"

namespace troupe::model {

struct export_options {
  /// Leave the optimizer's numbers out.
  bool weights_only = false;
  /// Replace a file that is there.
  bool overwrite = false;
};

/// Writes every table whole and in row order ("table.0.weight" [rows, columns], "table.0.state.0"), and the dense
/// tensors under their names. Metadata: "step", and the job's settings as "job.NAME". Takes memory for a few MiB and a
/// few rows, however large the tables are. The file appears when it is whole: until then it is called PATH.part.
/// Faults: kind input for a path that cannot be and for files of the checkpoint, kind run for writing. Any thread.
result<written_file> export_checkpoint(const checkpoint& saved, const std::string& path, export_options options);

}  // namespace troupe::model
