// When rank 0 votes for a checkpoint by time: at a fixed interval, or at one computed from the cost of checkpoints.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "actors/common/faults.hpp"

namespace troupe::actors {

/// A checkpoint's cost is the time that the run loses by it: the time from its beginning until it is written, less the
/// usual time of the steps done meanwhile. If trainers stand still for it, all of its time is lost; if it is written
/// beside the steps, the cost is how much it slows them, but at least a hundredth of its time: less cannot be
/// distinguished from the normal variation of steps.
///
/// Does not read the clock. Thread: one at a time.
class checkpoint_timer {
 public:
  using clock = std::chrono::steady_clock;
  static clock::time_point now() {
    if (auto* wrong = faults()) return wrong->checkpoint_clock();
    return clock::now();
  }

  /// When the first checkpoint is due, while the cost is unknown.
  static constexpr double first_seconds = 60;

  /// `seconds`: the interval if `mtbf` is 0. `mtbf`: mean time between failures in seconds; the interval is then the
  /// best one (Young), sqrt(2 cost mtbf), but at least as long as a checkpoint takes.
  checkpoint_timer(double seconds, double mtbf) : seconds_(mtbf > 0 ? first_seconds : seconds), mtbf_(mtbf) {}

  /// Training begins after `step` steps.
  void start(clock::time_point at, std::uint64_t step) {
    last_ = free_since_ = at;
    free_since_step_ = step;
  }

  /// Returns false while a checkpoint is being written.
  bool is_due(clock::time_point at) const { return !is_under_way_ && since(last_, at) >= seconds_; }

  /// A checkpoint begins after `step`, for any reason.
  void begins(clock::time_point at, std::uint64_t step) {
    const auto steps = static_cast<double>(step - free_since_step_);
    if (steps > 0) step_seconds_ = since(free_since_, at) / steps;
    last_ = at;
    begun_step_ = step;
    is_under_way_ = true;
  }

  /// The checkpoint is on disk or has failed, and `step` steps are done.
  void ends(clock::time_point at, std::uint64_t step) {
    is_under_way_ = false;
    free_since_ = at;
    free_since_step_ = step;
    if (mtbf_ <= 0) return;
    const double took = since(last_, at);
    const double usual = static_cast<double>(step - begun_step_) * step_seconds_;
    ++taken_;
    cost_ += (std::clamp(took - usual, took / 100, took) - cost_) / static_cast<double>(taken_);
    seconds_ = std::max(std::sqrt(2 * cost_ * mtbf_), took);
  }

  /// The interval between checkpoints in seconds.
  double seconds() const { return seconds_; }

 private:
  static double since(clock::time_point begin, clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }

  double seconds_;
  double mtbf_;
  clock::time_point last_;
  clock::time_point free_since_;       ///< when the last checkpoint ended, or training began
  std::uint64_t free_since_step_ = 0;  ///< the steps done then
  double step_seconds_ = 0;            ///< time of a step while no checkpoint is written
  std::uint64_t begun_step_ = 0;
  bool is_under_way_ = false;
  double cost_ = 0;  ///< mean cost of the checkpoints taken, in seconds
  std::uint64_t taken_ = 0;
};

}  // namespace troupe::actors
