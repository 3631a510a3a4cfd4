// The tables at the end of a run: its epochs, and its summary.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "model/job.hpp"
#include "nodes/run.hpp"

namespace troupe::apps {

/// The summary of a finished run, with figures of the program.
struct run_report {
  actors::run_summary run;
  /// Time from the program's start to the first step.
  double setup_seconds = 0;
  /// VmHWM of the largest process of the run.
  double peak_rss_mib = 0;

  double steps_per_s() const;
  double samples_per_s() const;
};

/// Rows of the epoch table: all epochs of a short run; of a long one the first, the last, and evenly spaced ones. Its
/// memory does not grow with the number of epochs.
class epoch_history {
 public:
  void add(const actors::epoch_summary& epoch);

  /// Returns "" before the end of the first epoch.
  std::string table() const;

 private:
  /// A summary without its losses, which can be many.
  struct row {
    std::uint64_t epoch;
    std::uint64_t steps;
    double samples_per_s;
    double seconds;
    model::epoch_figures figures;
  };

  static constexpr std::size_t rows_max = 20;

  /// Epochs 1, 1 + stride, 1 + 2 stride, ...
  std::vector<row> rows_;
  std::uint64_t stride_ = 1;
  std::optional<row> last_;
};

/// Adds the figures of an epoch to `line`.
void add(json_line& line, const model::epoch_figures& figures);

/// Returns the event of a finished run.
json_line done_event(const run_report& report, const model::job& what);

std::string summary_table(const run_report& report);

/// Returns the peak resident memory of this process in MiB; 0 if the system does not report it.
double peak_rss_mib();

}  // namespace troupe::apps
