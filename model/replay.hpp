// Reference runs: files with a whole small training run of another program: its batches, initial and final weights. The
// data set `replay:FILE` provides its batches. tests/reference_runs/README.md describes the format.

#pragma once

#include <string>
#include <vector>

#include "model/job.hpp"

namespace troupe::model {

/// The settings and results of a reference run.
struct reference_run {
  /// The job's settings for `parse_job`, without `servers`.
  std::vector<setting> settings;
  data_spec spec;
  /// [rows, dim] of each table after the last step.
  std::vector<std::vector<double>> tables;
  /// For each layer its parameters after the last step: for a linear layer its weight [out, in], then its bias [out].
  std::vector<double> dense;
  /// The layers' buffers after the last step, such as running means.
  std::vector<double> buffers;
  /// For a run with layers: samples [n, input], and the network's outputs for them after the last step, in evaluation
  /// mode [n, outputs]. Otherwise empty.
  std::vector<float> eval_input;
  std::vector<double> eval_output;
  /// [trainers][steps]: each rank's loss before the update.
  std::vector<std::vector<double>> losses;
};

/// Reads a reference run's settings and results, without its batches. Faults name the file, and the key or tensor.
/// Thread: any.
result<reference_run> open_reference_run(const std::string& path);

}  // namespace troupe::model
