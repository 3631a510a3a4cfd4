// What happens between steps: epochs and their reports, evaluation, checkpoints, the end.

#include <span>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "actors/part_state.hpp"
#include "actors/training_loop.hpp"
#include "base/digest.hpp"

namespace troupe::actors {

void training_loop::save_or_go_on() {
  const bool wanted = votes_.take_save() || votes_.stops();
  if (schedule_.saves_after(step_, wanted)) return save();
  go_on();
}

/// Begins the next step, whose rows may already have been looked up, or finishes.
void training_loop::go_on() {
  if (votes_.stops() || schedule_.is_last(step_)) {
    if (!schedule_.completes_epoch(step_)) report_epoch();
    return finish();
  }
  if (schedule_.completes_epoch(step_)) tally_.begin_epoch(epoch_tally::clock::now());
  enter(trainer_phase::looking_up);
  look_up_through(forwards_through(step_ + 1));
  prepare_next();
}

/// Has a checkpoint taken of all actors' states after this step, once the one before is written.
void training_loop::save() {
  enter(trainer_phase::saving);
  trace_.progresses();
  if (checkpoint_.begin(epoch_tally::clock::now())) return begin_save();
  ++waiting_;
}

/// Hands over this rank's state. With consistency sync training goes on while it is written, as servers keep theirs;
/// else, and at the end, the trainer waits until it is on disk, or has failed.
void training_loop::begin_save() {
  // A rank whose device has found a NaN that the host does not know yet must prevent the commit.
  replica_->synchronize();
  if (!judge(step_)) return;
  if (parts_ && assigned_.replica == 0) return gather_states(false, [this] { hand_over_state(); });
  hand_over_state();
}

void training_loop::hand_over_state() {
  const bool goes_on = job().staleness == 0 && !votes_.stops() && !schedule_.is_last(step_);
  checkpoint_.handed_over(step_, goes_on);
  const auto begin = checkpoint_.stands_still_since();
  msg::save_dense share = tally_.position(begin, !schedule_.completes_epoch(step_));
  share.head = trace_.next(step_);
  share.rank = assigned_.replica;
  if (assigned_.replica == 0) share.dense = whole_state();
  share.goes_on = goes_on;
  share.stood_still = std::chrono::duration<double>(epoch_tally::clock::now() - begin).count();
  if (goes_on)
    tally_.pause(begin, epoch_tally::clock::now());
  else
    ++waiting_;
  actor_.ask<msg::committed>(
      assigned_.reports, {.number = master_number, .timeout = assigned_.timeout}, std::move(share),
      [this](const msg::committed&) { saved(); }, [this](const caf::error& error) { fail(step_, error); });
}

/// The checkpoint is on disk, or has failed.
void training_loop::saved() {
  using phase = rank_checkpoint::phase;
  const phase before = checkpoint_.written(step_);
  if (before == phase::writing) return;
  if (before == phase::awaited) tally_.pause(checkpoint_.stands_still_since(), epoch_tally::clock::now());
  arrived();
}

void training_loop::report_epoch() {
  msg::epoch_report report = tally_.report(epoch_tally::clock::now());
  report.head = trace_.next(step_);
  report.rank = assigned_.replica;
  report.steps = schedule_.step_of_epoch(step_);
  report.evaluates = evaluates_now();
  send_report(std::move(report));
}

void training_loop::begin_evaluation() {
  enter(trainer_phase::evaluating);
  tested_.share.begin();
  evaluate_next();
}

/// Looks up the next of this rank's test rows, in the state after the step just done.
void training_loop::evaluate_next() {
  if (const auto chunk = tested_.share.next()) {
    const std::uint64_t looked_up_in = schedule_.first_after_update(step_);
    auto made = prepare(looked_up_in, assigned_.data->test_batch(chunk->first, chunk->count));
    if (!made) return fail(looked_up_in, made.error());
    tested_.current = std::move(*made);
    return look_up(tested_.current, 0, tested_.input);
  }
  msg::evaluation report = tested_.share.report();
  report.head = trace_.next(step_);
  report.rank = assigned_.replica;
  report.epoch = tally_.epoch();
  send_report(std::move(report));
  save_or_go_on();
}

void training_loop::score() {
  trace_.progresses();
  const actor_trace::range working(trace_, trace::range_name::evaluate, step_);
  const model::batch& samples = *tested_.current.samples;
  tested_.input.resize(replica_->compute(), samples.size, replica_->in_features());
  if (auto error = client_.pool(tested_.current, replica_->compute(), tested_.input)) return fail(step_, error);
  if (auto error = client_.check_rows(tested_.current)) return fail(step_, error);
  if (parts_) return evaluate_through_parts(samples);
  const std::span<const float> outputs = replica_->outputs(step_, samples.size, tested_.input.data());
  note_device_work();
  if (!judge(step_)) return;
  tested_.share.score(samples, outputs.data());
  evaluate_next();
}

/// The dense state of the whole network. With parts: as last gathered.
std::vector<msg::tensor> training_loop::whole_state() {
  if (!parts_) return replica_->state();
  const auto buffers = static_cast<std::size_t>(model::state_buffers(job().dense_optimizer));
  return joined_states(model::parts_of_network(job(), spec()), std::exchange(parts_->states, {}), buffers);
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
  replica_->look_at_weights(step_);
  if (!judge(step_)) return;
  if (parts_) return gather_states(true, [this] { deliver(); });
  deliver();
}

/// Tells the final weights: those of all parts.
void training_loop::deliver() {
  enter(trainer_phase::done);
  trace_.rests();
  msg::trained result{trace_.next(step_), step_, votes_.stops(), {}, 0};
  msg::tensor dense;
  msg::tensor buffers;
  if (parts_) {
    const std::size_t of_optimizer = static_cast<std::size_t>(model::state_buffers(job().dense_optimizer));
    auto state = whole_state();
    dense = std::move(state.front());
    if (state.size() > 1 + of_optimizer) buffers = std::move(state.back());
    result.step_seconds = parts_->passes->batch_seconds();
    result.pass_seconds = parts_->pass_seconds;
  } else {
    dense = replica_->weights();
    buffers = replica_->buffers();
  }
  note_device_work();
  result.dense_digest = digest_of(dense.bytes.data(), dense.bytes.size());
  if (assigned_.replica == 0) result.dense = joined(std::move(dense), buffers);
  actor_.done(std::move(result));
}

}  // namespace troupe::actors
