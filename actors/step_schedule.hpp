// Which step ends an optimizer step or an epoch, and what follows it: a pure function of the job's numbers. Steps are
// counted from 1.

#pragma once

#include <cstdint>

namespace troupe::actors {

struct step_schedule {
  std::uint64_t total_steps = 0;
  std::uint64_t steps_per_epoch = 1;
  /// Steps, of a batch of each rank, in one optimizer step.
  std::uint64_t accumulate = 1;
  /// Epochs from one evaluation to the next; 0: there is none, for lack of test rows say.
  std::uint64_t eval_every = 0;
  /// Whether checkpoints are taken: at the end, and every `checkpoint_every` steps (0: at the end only).
  bool saves = false;
  std::uint64_t checkpoint_every = 0;

  bool is_last(std::uint64_t step) const { return step == total_steps; }

  /// The optimizer step that a step belongs to, from 1.
  std::uint64_t update(std::uint64_t step) const { return (step - 1) / accumulate + 1; }
  bool begins_update(std::uint64_t step) const { return (step - 1) % accumulate == 0; }
  bool ends_update(std::uint64_t step) const { return step % accumulate == 0 || is_last(step); }
  /// The first step that sees what the optimizer step of this one has left: a short last one is over as well, and a
  /// lookup within it would not wait for it.
  std::uint64_t first_after_update(std::uint64_t step) const {
    return ends_update(step) ? update(step) * accumulate + 1 : step + 1;
  }

  /// The epoch that a run goes on with behind `step`, from 0; behind the last one that epoch, even if it is over.
  std::uint64_t epoch_after(std::uint64_t step) const { return (is_last(step) ? step - 1 : step) / steps_per_epoch; }
  /// The place of a step in its epoch, from 1.
  std::uint64_t step_of_epoch(std::uint64_t step) const { return (step - 1) % steps_per_epoch + 1; }
  bool completes_epoch(std::uint64_t step) const { return step % steps_per_epoch == 0; }

  /// Whether the test rows follow this step.
  bool evaluates_after(std::uint64_t step) const {
    if (eval_every == 0 || !(completes_epoch(step) || is_last(step))) return false;
    return is_last(step) || (step / steps_per_epoch) % eval_every == 0;
  }

  /// Whether a checkpoint follows this step: never within an optimizer step. `stopping`: the run ends with it.
  bool saves_after(std::uint64_t step, bool stopping) const {
    if (!saves || !ends_update(step)) return false;
    if (stopping || is_last(step)) return true;
    const std::uint64_t before = (update(step) - 1) * accumulate;
    return checkpoint_every > 0 && step / checkpoint_every > before / checkpoint_every;
  }
};

}  // namespace troupe::actors
