// What trainers report of a run, put together: epoch by epoch, and over all of it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/run_plan.hpp"

namespace troupe {

/// Belongs to the master.
class run_figures {
 public:
  using clock = std::chrono::steady_clock;

  /// As trainers told last, for those who ask.
  struct rates {
    double samples_per_s = 0;
    double steps_per_s = 0;
    clock::time_point at;
  };

  /// A run that goes on from a checkpoint counts on. `plan` must stay.
  void start(const run_plan& plan);
  void set_up_took(double seconds) { so_far_.setup_seconds = seconds; }

  run_progress add(const progress& report);
  /// The epochs that are complete with this. A rank that is none is an exception.
  std::vector<epoch_summary> add(epoch_report&& report);
  std::vector<epoch_summary> add(evaluation&& share);

  /// Of all epochs that are complete; without steps and weights.
  const run_summary& so_far() const { return so_far_; }
  const std::optional<rates>& last_progress() const { return last_progress_; }
  void fill(run_result& result) const;

 private:
  epoch_gathering& gathering(std::uint64_t epoch);
  std::vector<epoch_summary> take_complete();

  const run_plan* plan_ = nullptr;
  std::map<std::uint64_t, epoch_gathering> gathering_;  // by epoch
  run_summary so_far_;
  std::uint64_t staleness_sum_ = 0;
  std::uint64_t lookups_ = 0;
  std::optional<rates> last_progress_;
};

}  // namespace troupe
