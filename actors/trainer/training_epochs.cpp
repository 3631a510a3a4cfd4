// The work between steps: epochs and their reports, evaluation, checkpoints, the end.

#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "actors/trainer/training_loop.hpp"
#include "base/digest.hpp"

namespace troupe::actors {

void training_loop::save_or_continue() {
  const bool wanted = work_.votes.take_save() || work_.votes.stops();
  if (work_.schedule.saves_after(step_, wanted)) return save();
  proceed();
}

/// Begins the next step, whose rows may already have been looked up, or finishes.
void training_loop::proceed() {
  if (work_.votes.stops() || work_.schedule.is_last(step_)) {
    if (!work_.schedule.completes_epoch(step_)) report_epoch();
    return finish();
  }
  if (work_.schedule.completes_epoch(step_)) work_.tally.begin_epoch(epoch_tally::clock::now());
  enter(trainer_phase::looking_up);
  body_->look_up_for(step_ + 1);
  work_.prepare_next();
}

/// Begins a checkpoint of all actors' states after this step, once the previous one is written.
void training_loop::save() {
  enter(trainer_phase::saving);
  trace_.progresses();
  if (work_.checkpoint.begin(epoch_tally::clock::now())) return begin_save();
  ++work_.waiting;
}

/// Hands over this rank's state. With consistency sync training continues while it is written, since servers keep their
/// state; otherwise, and at the end, the trainer waits until the checkpoint is on disk or has failed.
void training_loop::begin_save() {
  // A rank whose device has found a NaN that the host does not know yet must prevent the commit.
  work_.replica->synchronize();
  if (!work_.check_finite(step_)) return;
  if (work_.assigned.replica != 0) return hand_over_state();
  body_->gather(false, [this] { hand_over_state(); });
}

void training_loop::hand_over_state() {
  const bool continues = job().staleness == 0 && !work_.votes.stops() && !work_.schedule.is_last(step_);
  work_.checkpoint.handed_over(step_, continues);
  const auto begin = work_.checkpoint.paused_since();
  msg::save_dense share = work_.tally.position(begin, !work_.schedule.completes_epoch(step_));
  share.head = trace_.next(step_);
  share.rank = work_.assigned.replica;
  if (work_.assigned.replica == 0) share.dense = body_->state();
  share.goes_on = continues;
  share.stood_still = std::chrono::duration<double>(epoch_tally::clock::now() - begin).count();
  if (continues)
    work_.tally.pause(begin, epoch_tally::clock::now());
  else
    ++work_.waiting;
  actor_.ask<msg::committed>(
      work_.assigned.reports, {.number = master_number, .timeout = work_.assigned.timeout}, std::move(share),
      [this](const msg::committed&) { saved(); }, [this](const caf::error& error) { fail(step_, error); });
}

/// The checkpoint is on disk, or has failed.
void training_loop::saved() {
  using phase = rank_checkpoint::phase;
  const phase before = work_.checkpoint.written(step_);
  if (before == phase::writing) return;
  if (before == phase::awaited) work_.tally.pause(work_.checkpoint.paused_since(), epoch_tally::clock::now());
  work_.arrived();
}

void training_loop::report_epoch() {
  msg::epoch_report report = work_.tally.report(epoch_tally::clock::now());
  report.head = trace_.next(step_);
  report.rank = work_.assigned.replica;
  report.steps = work_.schedule.step_of_epoch(step_);
  report.evaluates = evaluates_now();
  send_report(std::move(report));
}

void training_loop::begin_evaluation() {
  enter(trainer_phase::evaluating);
  work_.evaluation.begin();
  evaluate_next();
}

/// Looks up this rank's next test rows, in the state after the last step.
void training_loop::evaluate_next() {
  const std::uint64_t looked_up_in = work_.schedule.first_after_update(step_);
  const auto has_rows = work_.evaluation.take_next(
      [&](result<model::batch>&& rows) { return work_.prepare(looked_up_in, std::move(rows)); });
  if (!has_rows) return fail(looked_up_in, has_rows.error());
  if (*has_rows) return work_.look_up(work_.evaluation.rows(), 0, work_.evaluation.input());
  msg::evaluation report = work_.evaluation.report();
  report.head = trace_.next(step_);
  report.rank = work_.assigned.replica;
  report.epoch = work_.tally.epoch();
  send_report(std::move(report));
  save_or_continue();
}

void training_loop::score() {
  trace_.progresses();
  const actor_trace::range working(trace_, trace::range_name::evaluate, step_);
  rank_evaluation& evaluation = work_.evaluation;
  evaluation.input().resize(work_.replica->compute(), evaluation.samples().size, work_.replica->in_features());
  if (auto error = work_.client.pool(evaluation.rows(), work_.replica->compute(), evaluation.input()))
    return fail(step_, error);
  if (auto error = work_.client.check_rows(evaluation.rows())) return fail(step_, error);
  body_->evaluate([this] { evaluate_next(); });
}

namespace {

msg::tensor joined(msg::tensor weights, const msg::tensor& buffers) {
  if (buffers.rows == 0) return weights;
  std::vector<float> all(weights.as<float>().begin(), weights.as<float>().end());
  all.insert(all.end(), buffers.as<float>().begin(), buffers.as<float>().end());
  const std::uint64_t count = all.size();
  return msg::tensor::own(count, 1, std::move(all));
}

}  // namespace

void training_loop::finish() {
  work_.replica->look_at_weights(step_);
  if (!work_.check_finite(step_)) return;
  body_->gather(true, [this] { deliver(); });
}

/// Reports the final weights of all parts.
void training_loop::deliver() {
  enter(trainer_phase::done);
  trace_.rests();
  msg::trained result{trace_.next(step_), step_, work_.votes.stops(), {}, 0};
  step_body::outcome left = body_->end();
  result.step_seconds = left.step_seconds;
  result.pass_seconds = left.pass_seconds;
  work_.note_device_work();
  result.dense_digest = digest_of(left.weights.bytes.data(), left.weights.bytes.size());
  if (work_.assigned.replica == 0) result.dense = joined(std::move(left.weights), left.buffers);
  actor_.done(std::move(result));
}

}  // namespace troupe::actors
