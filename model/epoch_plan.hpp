// The epochs of a run whose number of trainers, and so of samples per step, may change between steps.

#pragma once

#include <cstdint>
#include <vector>

namespace troupe::model {

/// Assigns the samples of each epoch to global steps, in the epoch's order: every step uses as many as it has room for,
/// and an epoch's last step the rest. So each sample is used once an epoch. Immutable. Thread: any.
class epoch_plan {
 public:
  /// From `first_step` on, each step has `samples` samples of `trainers` trainers: rank r has every `trainers`-th one,
  /// from number r on.
  struct part {
    std::uint64_t first_step = 0;
    std::uint32_t trainers = 1;
    std::uint64_t samples = 1;
  };

  /// The position of a global step.
  struct place {
    std::uint64_t epoch = 0;          ///< from 0
    std::uint64_t step_of_epoch = 0;  ///< from 0
    std::uint64_t first = 0;          ///< position of its first sample in the epoch
    std::uint64_t samples = 0;
    std::uint32_t trainers = 1;

    /// Returns how many samples `rank` has.
    std::uint64_t size_of(std::uint64_t rank) const {
      return rank < samples ? (samples - rank + trainers - 1) / trainers : 0;
    }
  };

  /// `epoch_samples`: the samples of each epoch. Requires: it is not 0, nor are the parts' trainers and samples; the
  /// first part begins in step 0, and the first steps ascend.
  epoch_plan(std::uint64_t epoch_samples, const std::vector<part>& parts);
  /// Every epoch has `steps_per_epoch` steps.
  explicit epoch_plan(std::uint64_t steps_per_epoch = 1) : epoch_plan(steps_per_epoch, {part{}}) {}

  std::uint64_t epoch_samples() const { return epoch_samples_; }

  /// Returns the position of global step `step` (from 0).
  place of(std::uint64_t step) const;

  /// Returns the number of steps after which `epochs` epochs are complete.
  std::uint64_t steps_until(std::uint64_t epochs) const;

  /// Returns how many epochs are complete after `steps` steps.
  std::uint64_t epochs_after(std::uint64_t steps) const { return of(steps).epoch; }
  /// Returns whether the `steps`-th step of the run ends an epoch.
  bool completes_epoch(std::uint64_t steps) const { return of(steps).step_of_epoch == 0; }

 private:
  /// A part, and the position where it begins.
  struct period {
    part what;
    std::uint64_t epoch = 0;
    std::uint64_t steps_before = 0;  ///< steps of that epoch before it
    std::uint64_t first = 0;         ///< the position of its first sample
    std::uint64_t steps_left = 0;    ///< steps left in that epoch, if the part lasts that long
    std::uint64_t steps_per_epoch = 0;
  };

  place place_in(const period& one, std::uint64_t step) const;

  std::uint64_t epoch_samples_;
  std::vector<period> periods_;
};

}  // namespace troupe::model
