// The tables that close a run: its epochs, and what it came to.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "cluster/run.hpp"
#include "model/job.hpp"

namespace troupe::apps {

/// What a finished run has measured, with what only the program knows.
struct run_report {
  actors::run_summary run;
  /// From the program's start to the first step.
  double setup_seconds = 0;
  /// VmHWM of the largest process of the run.
  double peak_rss_mib = 0;

  double steps_per_s() const;
  double samples_per_s() const;
};

/// Rows for the epoch table: all epochs of a short run, an even selection with the first and the last of a long one.
/// Needs room for a few rows however many epochs come.
class epoch_history {
 public:
  void add(const actors::epoch_summary& epoch);

  /// "" before the first epoch has ended.
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

/// The figures of an epoch as fields of `line`.
void add(json_line& line, const model::epoch_figures& figures);

/// A finished run as one event.
json_line done_event(const run_report& report, const model::job& what);

std::string summary_table(const run_report& report);

/// Peak resident memory of this process in MiB, by the system's count; 0 if it does not say.
double peak_rss_mib();

}  // namespace troupe::apps
