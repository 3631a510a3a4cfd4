// A trainer's reports to the master during training: its progress, and its part of checkpoints.

#include <fmt/format.h>

#include <utility>

#include "actors/common/actor_name.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

std::vector<std::int64_t> as_signed(const std::vector<std::uint64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

/// Reports this trainer's progress to the master, a few times a second.
void trainer_runtime::report() {
  auto where = losses_.report(clock::now());
  if (!where) return;
  where->head = trace.next(step);
  const actors::inline_execution::elsewhere there(actor_.woken, actor_.self);
  actor_.self->send(assigned_.reports, *where);
}

/// Throws unless a resumed run can find the position of this step.
void trainer_runtime::check_loops(bool is_first_step) {
  if (loops().none())
    throw error(
        error_kind::input,
        "--save: a checkpoint needs to know where the trainer function is; take the optimizer's steps in a loop of "
        "trainer::steps or trainer::batches");
  if (!is_first_step)
    throw error(
        error_kind::input,
        "--save: a second optimizer step in one iteration of trainer::steps or trainer::batches; take one in each "
        "iteration");
}

/// Votes for a checkpoint after the step if one is due by time. Throws if the votes would not reach the others.
void trainer_runtime::vote_to_save() {
  if (!checkpoint_.is_by_time()) return;
  const bool is_reported = replicas_.is_reduced();
  if (assigned_.trainers > 1 && !is_reported)
    throw error(
        error_kind::input,
        "--checkpoint-seconds: trainers agree on a checkpoint in the steps that they take together, and none of "
        "their replicas has gradients that are summed up; use --checkpoint-every N");
  votes_.vote_to_save(checkpoint_.is_due_by_time());
  if (!is_reported) votes_.count({.save = votes_.own().save});
}

/// Sends this trainer's part of a checkpoint to the master, and calls `then` when training may continue.
void trainer_runtime::save(std::function<void()> then, std::function<void(const error&)> on_error) {
  msg::save_dense share{.head = trace.next(steps_.done), .rank = rank()};
  share.server_steps = tables_.steps();
  share.skipped = whole_.skipped_since_save();
  try {
    for (const auto& one : replicas_.all())
      if (one->is_saved_by(rank())) one->put(share);
    kept_.put_own(share, {{"steps", {static_cast<std::int64_t>(steps_.done)}},
                          {"contexts", {static_cast<std::int64_t>(steps_.contexts)}},
                          {"loops", as_signed(loops().place())},
                          {"skipped", {static_cast<std::int64_t>(whole_.skipped())}},
                          {"server_steps", as_signed(share.server_steps)}});
  } catch (const error& wrong) {
    return on_error(wrong);
  }
  votes_.take_save();
  checkpoint_.begin(clock::now());
  checkpoint_.handed_over(steps_.done, false);
  requests_.ask<msg::committed>(
      assigned_.reports, {.number = actors::master_number, .timeout = assigned_.timeout}, std::move(share),
      [this, then = std::move(then)](const msg::committed&) {
        checkpoint_.written(steps_.done);
        then();
      },
      [this, on_error = std::move(on_error)](const caf::error& why) {
        checkpoint_.given_up();
        on_error(to_error(why));
      });
}

/// Saves the last checkpoint, and answers.
void trainer_runtime::finish() {
  if (phase_ == phase::over) return;
  if (!schedule_.saves || checkpoint_.last_step() == steps_.done) return deliver();
  kept_.end();
  save([this] { deliver(); }, [this](const error& why) { ended(std::make_exception_ptr(why)); });
}

/// Begins at the checkpoint's position.
void trainer_runtime::resume() {
  if (!kept_.is_resumed()) return;
  const auto unsigned_of = [this](const char* which) {
    const auto numbers = kept_.restored_own(which);
    return std::vector<std::uint64_t>(numbers.begin(), numbers.end());
  };
  step = steps_.done = unsigned_of("steps").at(0);
  checkpoint_.start(steps_.done);
  steps_.contexts = unsigned_of("contexts").at(0);
  loops().resume(unsigned_of("loops"));
  tables_.resume(unsigned_of("server_steps"));
  if (kept_.has_own("skipped")) whole_.resume(unsigned_of("skipped").at(0));
}

}  // namespace troupe::runtime
