// What the trainer does between steps: epochs and their reports, evaluation, checkpoints, the end.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/trainer.hpp"
#include "base/digest.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t test_rows_at_once = 1024;

}  // namespace

void trainer_state::save_or_go_on() {
  if (saves()) return save();
  go_on();
}

/// The next step, whose rows have perhaps been asked for already, or the end.
void trainer_state::go_on() {
  if (stopping_ || step == total_steps_) {
    if (!completes_epoch()) report_epoch();
    return finish();
  }
  if (completes_epoch()) begin_epoch();
  phase_ = phase::looking_up;
  look_up_through(step + 1);
  prepare_next();
}

bool trainer_state::ends_epoch() const { return step % data_->steps_per_epoch() == 0 || step == total_steps_; }

/// Whether the test rows follow the step under way.
bool trainer_state::evaluates() const {
  if (job_.eval_every == 0 || data_->test_rows() == 0 || !ends_epoch()) return false;
  return step == total_steps_ || (step / data_->steps_per_epoch()) % job_.eval_every == 0;
}

/// Whether a checkpoint is taken after the step under way: never within an optimizer step.
bool trainer_state::saves() const {
  if (!saves_ || !ends_update()) return false;
  if (stopping_ || step == total_steps_) return true;
  const std::uint64_t before = (update() - 1) * job_.accumulate;
  return checkpoint_every_ > 0 && step / checkpoint_every_ > before / checkpoint_every_;
}

tensor trainer_state::copy_of(const kernels::device_array<float>& numbers) {
  synchronize();
  std::vector<float> copy;
  const auto here = kernels::on_host<float>(*compute_, numbers.data(), numbers.size(), copy);
  if (copy.empty()) copy.assign(here.begin(), here.end());
  return tensor::own(numbers.size(), 1, std::move(copy));
}

/// Stands still until all actors' states after this step are on disk, or could not be written.
void trainer_state::save() {
  // Any rank that has met a NaN without knowing yet keeps it from being committed.
  synchronize();
  judge_checks(step);
  if (failed_) return;
  phase_ = phase::saving;
  ++waiting_;
  trace.progresses();
  const auto begin = clock::now();
  const std::chrono::duration<double> seconds = begin - epoch_begin_;
  save_dense share{.head = trace.next(step), .rank = rank_, .skipped = skipped_};
  if (!completes_epoch())
    std::tie(share.samples, share.loss_sum, share.seconds) = std::tuple(epoch_samples_, epoch_loss_, seconds.count());
  if (rank_ == 0)
    for (const auto* numbers : {&weights_, &first_state_, &second_state_})
      if (numbers->size() > 0) share.dense.push_back(copy_of(*numbers));
  const message_id asked = id_of(share.head);
  trace.asks(share.head, caf::type_id_v<save_dense>, master_number);
  self_->request(reports_, patience_, std::move(share))
      .then(
          [this, begin, asked](const committed& answer) {
            trace.has_answer(asked);
            const actor_trace::handling scope(trace, answer, trace::flag::answer);
            epoch_begin_ += clock::now() - begin;
            arrived();
          },
          [this](const caf::error& error) {
            fail(step,
                 !(error == caf::sec::request_timeout)
                     ? error
                     : make_failure(errc::timeout, fmt::format("the master did not answer save_dense within {} s; "
                                                               "--request-timeout allows more",
                                                               static_cast<double>(patience_.count()) / 1e9)));
          });
}

void trainer_state::begin_epoch() {
  ++epoch_;
  epoch_begin_ = clock::now();
  epoch_samples_ = 0;
  epoch_loss_ = 0;
  losses_.clear();
}

void trainer_state::report_epoch() {
  const std::chrono::duration<double> seconds = clock::now() - epoch_begin_;
  const std::uint64_t steps = (step - 1) % data_->steps_per_epoch() + 1;
  const std::uint64_t count = losses_.size();
  self_->send(reports_, epoch_report{.head = trace.next(step),
                                     .rank = rank_,
                                     .epoch = epoch_,
                                     .steps = steps,
                                     .samples = epoch_samples_,
                                     .seconds = seconds.count(),
                                     .loss_sum = epoch_loss_,
                                     .losses = tensor::own(count, 1, std::exchange(losses_, {})),
                                     .evaluates = evaluates() && !stopping_,
                                     .skipped = std::exchange(skipped_, 0),
                                     .lookups = std::exchange(lookups_, 0),
                                     .staleness_sum = std::exchange(staleness_sum_, 0),
                                     .staleness_max = std::exchange(staleness_max_, 0)});
}

void trainer_state::report_progress() {
  constexpr std::chrono::milliseconds interval{100};
  const auto now = clock::now();
  if (progress_samples_ == 0 || now - last_progress_ < interval) return;
  last_progress_ = now;
  const std::chrono::duration<double> seconds = now - epoch_begin_;
  self_->send(reports_, progress{.head = trace.next(step),
                                 .samples = epoch_samples_,
                                 .seconds = seconds.count(),
                                 .loss_sum = std::exchange(progress_loss_, 0),
                                 .loss_samples = std::exchange(progress_samples_, 0)});
}

void trainer_state::begin_evaluation() {
  phase_ = phase::evaluating;
  test_next_ = rank_ * test_rows_at_once;
  predictions_ = {};
  evaluate_next();
}

/// Looks up the next of this rank's test rows, as they are after the step that has just been done. The ranks take turns
/// in chunks of the test rows, so that they go through a file together. A short last optimizer step is over as well: a
/// lookup within it would not wait for it.
void trainer_state::evaluate_next() {
  if (test_next_ < data_->test_rows()) {
    const std::uint64_t count = std::min(test_rows_at_once, data_->test_rows() - test_next_);
    const std::uint64_t next_step = ends_update() ? update() * job_.accumulate + 1 : step + 1;
    tested_ = prepare(next_step, data_->test_batch(test_next_, count));
    test_next_ += test_rows_at_once * job_.trainers;
    return look_up(tested_, 0, test_input_);
  }
  const std::uint64_t scored = predictions_.scores.size();
  self_->send(reports_, evaluation{.head = trace.next(step),
                                   .rank = rank_,
                                   .epoch = epoch_,
                                   .rows = predictions_.rows,
                                   .correct = predictions_.correct,
                                   .scores = tensor::own(scored, 1, std::exchange(predictions_.scores, {})),
                                   .labels = tensor::own(scored, 1, std::exchange(predictions_.labels, {})),
                                   .log_loss_sum = predictions_.log_loss_sum,
                                   .probability_sum = predictions_.probability_sum,
                                   .tested = predictions_.tested,
                                   .loss_sum = predictions_.loss_sum});
  save_or_go_on();
}

void trainer_state::score() {
  trace.progresses();
  const actor_trace::range working(trace, trace::range_name::evaluate, step);
  const batch& samples = *tested_.plan.samples;
  test_input_.resize(*compute_, samples.size, model_->in_features());
  if (auto error = exchange_.pool(tested_.plan, tested_.answers, *compute_, test_input_)) return fail(step, error);
  if (auto error = exchange_.check_rows(tested_.plan, tested_.answers)) return fail(step, error);
  const float* outputs = model_->forward(*compute_, samples.size, weights_.data(), test_input_.data(), activations_);
  const std::size_t count = samples.size * model_->out_features();
  look_for_non_finite(outputs, count, "an output for a test row");
  synchronize();
  judge_checks(step);
  if (failed_) return;
  std::vector<float> copy;
  predict(model_->spec(), job_.loss, samples, kernels::on_host(*compute_, outputs, count, copy).data(), predictions_);
  evaluate_next();
}

void trainer_state::finish() {
  look_for_non_finite(weights_.data(), weights_.size(), "a dense weight");
  synchronize();
  judge_checks(step);
  if (failed_) return;
  phase_ = phase::done;
  trace.rests();
  trained result{.head = trace.next(step), .steps = step, .stopped = stopping_};
  tensor dense = copy_of(weights_);
  result.dense_digest = digest_of(dense.bytes.data(), dense.bytes.size());
  if (rank_ == 0) result.dense = std::move(dense);
  promise_.deliver(std::move(result));
}

}  // namespace troupe
