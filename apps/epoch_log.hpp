// Files that get a record of each epoch: --metrics-csv and --tensorboard.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "cluster/run.hpp"

namespace troupe::apps {

/// One such file. Not for two threads at a time.
class epoch_log {
 public:
  /// `option`: what asked for it, for messages: "--metrics-csv FILE". `beginning` goes before the first record.
  epoch_log(std::string option, descriptor file, std::string beginning)
      : option_(std::move(option)), file_(std::move(file)), pending_(std::move(beginning)) {}
  virtual ~epoch_log() = default;

  /// Writes the epoch's record, whole and at once. After a fault (of kind run) nothing is written any more, and nothing
  /// is wrong any more.
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

/// Opens those that are asked for. `kept_to`: of a run that goes on, the global step at which its last whole epoch
/// ended. Records up to it are kept, later ones replaced: an epoch that the checkpoint cuts is told once, when it is
/// whole. Without `kept_to` what was there is replaced. A file that is there is only changed if nothing is refused.
/// Faults are of kind input.
result<epoch_logs> open_epoch_logs(const std::optional<std::string>& metrics_csv,
                                   const std::optional<std::string>& tensorboard,
                                   std::optional<std::uint64_t> kept_to = std::nullopt);

// One file each.
result<std::unique_ptr<epoch_log>> open_metrics_csv(const std::string& path, std::optional<std::uint64_t> kept_to);
result<std::unique_ptr<epoch_log>> open_tensorboard(const std::string& directory, std::optional<std::uint64_t> kept_to);

/// Samples of all trainers per second of training; NaN where no time was measured.
double samples_per_s(const actors::epoch_summary& epoch);

}  // namespace troupe::apps
