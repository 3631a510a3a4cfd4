// Reference runs: files that hold a whole small training run computed elsewhere, batch by batch, with the weights it
// began and ended with. As a data set (`replay:FILE`) such a file gives the batches. How it is laid out is told in
// tests/reference_runs/README.md.

#pragma once

#include <string>
#include <vector>

#include "model/job.hpp"

namespace troupe::model {

/// What a reference run is compared with.
struct reference_run {
  /// For `parse_job`: the job that computes the run. `servers` is left to the caller.
  std::vector<setting> settings;
  /// [rows, dim] of each table after the last step.
  std::vector<std::vector<double>> tables;
  /// For each linear layer its weight [out, in], then its bias [out], one after the other, after the last step.
  std::vector<double> dense;
  /// [trainers][steps]: each rank's loss before the update.
  std::vector<std::vector<double>> losses;
};

/// Reads a reference run's settings and results. The batches are checked when the data set is opened.
/// Faults name the file, and the key or tensor. May be called from any thread.
result<reference_run> open_reference_run(const std::string& path);

}  // namespace troupe::model
