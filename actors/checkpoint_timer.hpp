// When rank 0 wants a checkpoint by time: a fixed time after the last one, or after one that follows from what
// checkpoints have cost.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "actors/faults.hpp"

namespace troupe::actors {

/// A checkpoint's cost is the time that the run has lost by it: from when it began until it was written, less the time
/// that the steps done meanwhile usually take. So one for which trainers stand still costs all of its time, and one
/// that is written beside the steps costs by how much it has slowed them, a hundredth of its time at the least: less
/// cannot be told from the steps' own ups and downs.
///
/// Does not read the clock. Thread: one at a time.
class checkpoint_timer {
 public:
  using clock = std::chrono::steady_clock;
  static clock::time_point now() {
    if (auto* wrong = faults()) return wrong->checkpoint_clock();
    return clock::now();
  }

  /// When the first checkpoint is due whose cost nobody knows yet.
  static constexpr double first_seconds = 60;

  /// `mtbf`: the mean time between failures in seconds, with which the time between two checkpoints is the best one
  /// (Young): sqrt(2 cost mtbf), at least as long as one takes. 0: it is `seconds`.
  checkpoint_timer(double seconds, double mtbf) : seconds_(mtbf > 0 ? first_seconds : seconds), mtbf_(mtbf) {}

  /// Training begins, `step` steps are done.
  void start(clock::time_point at, std::uint64_t step) {
    last_ = free_since_ = at;
    free_since_step_ = step;
  }

  /// Never while one is being written.
  bool is_due(clock::time_point at) const { return !is_under_way_ && since(last_, at) >= seconds_; }

  /// A checkpoint is taken after `step`, for whatever reason.
  void begins(clock::time_point at, std::uint64_t step) {
    const auto steps = static_cast<double>(step - free_since_step_);
    if (steps > 0) step_seconds_ = since(free_since_, at) / steps;
    last_ = at;
    begun_step_ = step;
    is_under_way_ = true;
  }

  /// It is on disk, or has failed, and `step` steps are done.
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

  /// The seconds from one to the next.
  double seconds() const { return seconds_; }

 private:
  static double since(clock::time_point begin, clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }

  double seconds_;
  double mtbf_;
  clock::time_point last_;
  clock::time_point free_since_;       ///< no checkpoint has been written since
  std::uint64_t free_since_step_ = 0;  ///< the steps done then
  double step_seconds_ = 0;            ///< of a step, while none is written
  std::uint64_t begun_step_ = 0;
  bool is_under_way_ = false;
  double cost_ = 0;  ///< the mean of those taken, in seconds
  std::uint64_t taken_ = 0;
};

}  // namespace troupe::actors
