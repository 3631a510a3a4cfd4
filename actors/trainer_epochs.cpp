// What the trainer does between steps: epochs and their reports, evaluation, checkpoints, the end.

#include <span>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "actors/part_state.hpp"
#include "actors/trainer.hpp"
#include "base/digest.hpp"

namespace troupe::actors {

void trainer_state::save_or_go_on() {
  const bool wanted = std::exchange(saving_, false) || stopping_;
  if (schedule_.saves_after(step, wanted)) return save();
  go_on();
}

/// Begins the next step, whose rows may already have been looked up, or finishes.
void trainer_state::go_on() {
  if (stopping_ || schedule_.is_last(step)) {
    if (!schedule_.completes_epoch(step)) report_epoch();
    return finish();
  }
  if (schedule_.completes_epoch(step)) tally_.begin_epoch(epoch_tally::clock::now());
  enter(trainer_phase::looking_up);
  look_up_through(forwards_through(step + 1));
  prepare_next();
}

/// Has a checkpoint taken of all actors' states after this step, once the one before is written.
void trainer_state::save() {
  enter(trainer_phase::saving);
  trace.progresses();
  if (checkpoint_.begin(epoch_tally::clock::now())) return begin_save();
  ++waiting_;
}

/// Hands over this rank's state. With consistency sync training goes on while it is written, as servers keep theirs;
/// else, and at the end, the trainer waits until it is on disk, or has failed.
void trainer_state::begin_save() {
  // A rank whose device has found a NaN that the host does not know yet must prevent the commit.
  replica_->synchronize();
  if (!judge(step)) return;
  if (parts_ && replica_number_ == 0) return gather_states(false, [this] { hand_over_state(); });
  hand_over_state();
}

void trainer_state::hand_over_state() {
  const bool goes_on = job_.staleness == 0 && !stopping_ && !schedule_.is_last(step);
  checkpoint_.handed_over(step, goes_on);
  const auto begin = checkpoint_.stands_still_since();
  msg::save_dense share = tally_.position(begin, !schedule_.completes_epoch(step));
  share.head = trace.next(step);
  share.rank = replica_number_;
  if (replica_number_ == 0) share.dense = whole_state();
  share.goes_on = goes_on;
  share.stood_still = std::chrono::duration<double>(epoch_tally::clock::now() - begin).count();
  if (goes_on)
    tally_.pause(begin, epoch_tally::clock::now());
  else
    ++waiting_;
  const msg::message_id asked = msg::id_of(share.head);
  trace.asks(share.head, caf::type_id_v<msg::save_dense>, master_number);
  self_->request(peers_.reports, peers_.timeout, std::move(share))
      .then(
          [this, asked](const msg::committed& answer) {
            trace.has_answer(asked);
            const actor_trace::handling scope(trace, answer, trace::flag::answer);
            saved();
          },
          [this](const caf::error& error) {
            fail(step,
                 !(error == caf::sec::request_timeout)
                     ? error
                     : make_failure(errc::timeout,
                                    "the master did not answer save_dense within {} s; --request-timeout allows more",
                                    static_cast<double>(peers_.timeout.count()) / 1e9));
          });
}

/// The checkpoint is on disk, or has failed.
void trainer_state::saved() {
  using phase = rank_checkpoint::phase;
  const phase before = checkpoint_.written(step);
  if (before == phase::writing) return;
  if (before == phase::awaited) tally_.pause(checkpoint_.stands_still_since(), epoch_tally::clock::now());
  arrived();
}

void trainer_state::report_epoch() {
  msg::epoch_report report = tally_.report(epoch_tally::clock::now());
  report.head = trace.next(step);
  report.rank = replica_number_;
  report.steps = schedule_.step_of_epoch(step);
  report.evaluates = evaluates_now();
  send_report(std::move(report));
}

void trainer_state::begin_evaluation() {
  enter(trainer_phase::evaluating);
  tests_.begin();
  evaluate_next();
}

/// Looks up the next of this rank's test rows, in the state after the step just done.
void trainer_state::evaluate_next() {
  if (const auto chunk = tests_.next()) {
    const std::uint64_t looked_up_in = schedule_.first_after_update(step);
    tested_ = prepared(looked_up_in, prepare(looked_up_in, data_->test_batch(chunk->first, chunk->count)));
    return look_up(tested_, 0, test_input_);
  }
  msg::evaluation report = tests_.report();
  report.head = trace.next(step);
  report.rank = replica_number_;
  report.epoch = tally_.epoch();
  send_report(std::move(report));
  save_or_go_on();
}

void trainer_state::score() {
  trace.progresses();
  const actor_trace::range working(trace, trace::range_name::evaluate, step);
  const model::batch& samples = *tested_.samples;
  test_input_.resize(replica_->compute(), samples.size, network_->in_features());
  if (auto error = client_.pool(tested_, replica_->compute(), test_input_)) return fail(step, error);
  if (auto error = client_.check_rows(tested_)) return fail(step, error);
  if (parts_) return evaluate_through_parts(samples);
  const std::span<const float> outputs = replica_->outputs(step, samples.size, test_input_.data());
  note_device_work();
  if (!judge(step)) return;
  tests_.score(samples, outputs.data());
  evaluate_next();
}

/// The dense state of the whole network. With parts: as last gathered.
std::vector<msg::tensor> trainer_state::whole_state() {
  if (!parts_) return replica_->state();
  const auto buffers = static_cast<std::size_t>(model::state_buffers(job_.dense_optimizer));
  return joined_states(model::parts_of_network(job_, data_->spec()), std::exchange(parts_->states, {}), buffers);
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

void trainer_state::finish() {
  replica_->look_at_weights(step);
  if (!judge(step)) return;
  if (parts_) return gather_states(true, [this] { deliver(); });
  deliver();
}

/// Tells the final weights: those of all parts.
void trainer_state::deliver() {
  enter(trainer_phase::done);
  trace.rests();
  msg::trained result{trace.next(step), step, stopping_, {}, 0};
  msg::tensor dense;
  msg::tensor buffers;
  if (parts_) {
    const std::size_t of_optimizer = static_cast<std::size_t>(model::state_buffers(job_.dense_optimizer));
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
  if (replica_number_ == 0) result.dense = joined(std::move(dense), buffers);
  const inline_execution::elsewhere there(woken_.get(), self_);
  promise_.deliver(std::move(result));
}

}  // namespace troupe::actors
