// Which steps end an optimizer step or an epoch, and what follows them: pure functions of the job's numbers. Steps
// count from 1.

#pragma once

#include <cstdint>

#include "model/epoch_plan.hpp"

namespace troupe::actors {

struct step_schedule {
  std::uint64_t total_steps = 0;
  model::epoch_plan epochs = model::epoch_plan(1);
  /// Steps (one batch of each rank) in an optimizer step.
  std::uint64_t accumulate = 1;
  /// Epochs between evaluations; 0: no evaluation, for instance without test rows.
  std::uint64_t eval_every = 0;
  /// Whether checkpoints are taken: at the end, and every `checkpoint_every` steps (0: only at the end).
  bool saves = false;
  std::uint64_t checkpoint_every = 0;
  /// The step after which the number of trainers changes, so that another attempt follows; 0: none.
  std::uint64_t changes_after = 0;

  bool is_last(std::uint64_t step) const { return step == total_steps; }

  /// Returns the optimizer step of a step, from 1.
  std::uint64_t update(std::uint64_t step) const { return (step - 1) / accumulate + 1; }
  bool begins_update(std::uint64_t step) const { return (step - 1) % accumulate == 0; }
  bool ends_update(std::uint64_t step) const { return step % accumulate == 0 || is_last(step); }
  /// Returns the first step whose lookups wait for the optimizer step of `step`. The last optimizer step may be short:
  /// a lookup for a step within its full length would not wait for it.
  std::uint64_t first_after_update(std::uint64_t step) const {
    return ends_update(step) ? update(step) * accumulate + 1 : step + 1;
  }

  /// Returns the epoch, from 0, in which a run resumes after `step`; after the last step, the last epoch.
  std::uint64_t epoch_after(std::uint64_t step) const { return epochs.epochs_after(is_last(step) ? step - 1 : step); }
  /// Returns the position of a step in its epoch, from 1.
  std::uint64_t step_of_epoch(std::uint64_t step) const { return epochs.of(step - 1).step_of_epoch + 1; }
  bool completes_epoch(std::uint64_t step) const { return epochs.completes_epoch(step); }

  /// Returns whether an evaluation follows this step.
  bool evaluates_after(std::uint64_t step) const {
    if (eval_every == 0 || !(completes_epoch(step) || is_last(step))) return false;
    return is_last(step) || epochs.epochs_after(step) % eval_every == 0;
  }

  /// Returns whether the next step directly follows this one: no end of an epoch or of the run, no evaluation, no
  /// checkpoint, unless the run is stopped or the trainers agree on a checkpoint.
  bool continues_after(std::uint64_t step) const {
    return !is_last(step) && step != changes_after && !completes_epoch(step) && !saves_after(step, false);
  }

  /// Returns whether a checkpoint follows this step; never within an optimizer step. `wanted`: the run ends with it, or
  /// the trainers have agreed on one.
  bool saves_after(std::uint64_t step, bool wanted) const {
    if (!saves || !ends_update(step)) return false;
    if (wanted || is_last(step)) return true;
    const std::uint64_t before = (update(step) - 1) * accumulate;
    return checkpoint_every > 0 && step / checkpoint_every > before / checkpoint_every;
  }
};

}  // namespace troupe::actors
