// The tables at the end of a run: its epochs, and its summary.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "base/json_text.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"

namespace troupe::apps {

/// The summary of a finished run, with the program's figures.
struct run_report {
  actors::run_summary run;
  /// Time from the program's start to the first step.
  double setup_seconds = 0;
  /// VmHWM of the largest process of the run.
  double peak_rss_mib = 0;
  /// Attempts at the run, and the steps that were repeated after losses.
  std::uint64_t attempts = 1;
  std::uint64_t steps_redone = 0;
  std::string memberships = {};  ///< an elastic run's, as in its job

  double steps_per_s() const;
  double samples_per_s() const;
  /// The share of the steps of all attempts that did not have to be repeated.
  double goodput() const;
};

/// Rows of the epoch table: all epochs of a short run; for a long one the first, the last, and evenly spaced ones. Its
/// memory does not grow with the number of epochs, and is kept in a file between the attempts at a run.
class epoch_history {
 public:
  /// Reads the rows in `file`, and keeps them there from now on; -1: no file.
  explicit epoch_history(int file = -1);

  void add(const actors::epoch_summary& epoch);

  /// Returns the last epoch's number; 0 before the end of the first epoch.
  std::uint64_t last() const { return kept_.last ? kept_.last->epoch : 0; }

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

  struct rows {
    /// Epochs 1, 1 + stride, 1 + 2 stride, ...
    std::array<row, rows_max + 1> all{};
    std::size_t count = 0;
    std::uint64_t stride = 1;
    std::optional<row> last;
  };
  static_assert(std::is_trivially_copyable_v<rows>, "it is written to a file as it is");

  rows kept_;
  int file_;
};

/// Adds the figures of an epoch to `line`.
void add(json_line& line, const model::epoch_figures& figures);

/// Returns the event of a finished run.
json_line done_event(const run_report& report, const model::job& what);

std::string summary_table(const run_report& report);

/// Returns the peak resident memory of this process in MiB; 0 if the system does not report it.
double peak_rss_mib();

}  // namespace troupe::apps
