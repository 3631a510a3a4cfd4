// Files with a record for each epoch: --metrics-csv and --tensorboard.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "cluster/nodes/run.hpp"
#include "nn/own_metric.hpp"

namespace troupe::apps {

/// A log file. Thread: one at a time.
class epoch_log {
 public:
  /// `option`: for error messages, as in "--metrics-csv FILE". `beginning` is written before the first record.
  epoch_log(std::string option, descriptor file, std::string beginning)
      : option_(std::move(option)), file_(std::move(file)), pending_(std::move(beginning)) {}
  virtual ~epoch_log() = default;

  /// Writes the epoch's record in one call. After the first fault (of kind run) it writes nothing, without a fault.
  result<void> add(const actors::epoch_summary& epoch);

  bool failed() const { return failed_; }

 private:
  virtual std::string record(const actors::epoch_summary& epoch) const = 0;

  std::string option_;
  descriptor file_;
  std::string pending_;
  bool failed_ = false;
};

/// All logs of a run.
using epoch_logs = std::vector<std::unique_ptr<epoch_log>>;

/// Opens the requested logs. `kept_to`: for a resumed run, the global step at which its last whole epoch ended. Records
/// up to it are kept, later ones are replaced, so that each epoch is recorded once. Without `kept_to` existing records
/// are replaced. `own`: the job's metrics that the program has added. Existing files are changed only if no log is
/// refused. Faults are of kind input.
result<epoch_logs> open_epoch_logs(const std::optional<std::string>& metrics_csv,
                                   const std::optional<std::string>& tensorboard,
                                   std::optional<std::uint64_t> kept_to = std::nullopt,
                                   const nn::own_metrics& own = {});

// Each opens one file.
result<std::unique_ptr<epoch_log>> open_metrics_csv(const std::string& path, std::optional<std::uint64_t> kept_to,
                                                    const nn::own_metrics& own = {});
result<std::unique_ptr<epoch_log>> open_tensorboard(const std::string& directory, std::optional<std::uint64_t> kept_to);

/// Returns the samples of all trainers per second of training; NaN if no time was measured.
double samples_per_s(const actors::epoch_summary& epoch);

}  // namespace troupe::apps
