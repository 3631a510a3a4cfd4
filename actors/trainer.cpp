#include "actors/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/actor_name.hpp"
#include "kernels/elementwise.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

namespace {

const char* kind_of(double not_finite) { return std::isnan(not_finite) ? "NaN" : "Inf"; }

}  // namespace

std::uint64_t total_steps(const job& what, const dataset& data) {
  return what.steps ? *what.steps : what.epochs * data.steps_per_epoch();
}

void trainer_state::start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers) {
  name = fmt::format("trainer {}", rank);
  rank_ = rank;
  headers_ = header_source(run, trainer_number(rank, servers));
}

/// Ends this actor, and by that the run; the first failure counts.
void trainer_state::fail(std::uint64_t at_step, const caf::error& cause) {
  if (std::exchange(failed_, true)) return;
  if (is_secondary(cause))
    self_->quit(make_failure(errc::peer_failed,
                             fmt::format("{}, step {}: an answer did not come: {}", name, at_step, describe(cause))));
  else
    self_->quit(failure_of(name, at_step, cause));
}

// -- set-up and lookups -------------------------------------------------------

caf::result<trained> trainer_state::handle(train& order) {
  cause_ = id_of(order.head);
  promise_ = self_->make_response_promise<trained>();
  if (auto error = set_up(order)) {
    fail(0, error);
    return promise_;
  }
  begin_epoch();
  next_ = prepare(1, data_->train_batch(0, rank_));
  phase_ = phase::looking_up;
  look_up_next();
  if (waiting_ == 0) compute();
  return promise_;
}

caf::error trainer_state::set_up(train& order) {
  auto parsed = parse_job(order.job);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  job_ = std::move(*parsed);
  auto opened = open_dataset(job_);
  if (!opened) return make_failure(errc::bad_input, opened.error().message);
  data_ = std::move(*opened);
  total_steps_ = total_steps(job_, *data_);
  model_ = std::make_unique<hybrid_model>(data_->spec(), job_.hidden, job_.loss);
  exchange_ = table_exchange(*model_, std::move(order.tables));
  group_ = order.group;
  reports_ = order.reports;

  const mlp& network = model_->network();
  auto given = data_->start();
  weights_ = given ? std::move(given->dense) : network.initial_parameters(job_.seed);
  if (weights_.size() != network.parameter_count())
    return make_failure(errc::shape_mismatch, fmt::format("{} initial dense weights for a network of {}",
                                                          weights_.size(), network.parameter_count()));
  const int buffers = state_buffers(job_.dense_optimizer);
  if (buffers >= 1) first_state_.assign(weights_.size(), initial_state(job_.dense_optimizer));
  if (buffers >= 2) second_state_.assign(weights_.size(), 0.0F);

  constexpr double first_bucket_mib = 1;
  constexpr double mib = 1024 * 1024;
  bucket_plan_ =
      plan_buckets(network.ranges(), static_cast<std::size_t>(std::min(job_.bucket_mib, first_bucket_mib) * mib),
                   static_cast<std::size_t>(job_.bucket_mib * mib));
  buckets_.resize(bucket_plan_.size());
  return {};
}

trainer_state::context trainer_state::prepare(std::uint64_t of_step, batch&& samples) {
  context c;
  c.step = of_step;
  auto shared = std::make_shared<const batch>(std::move(samples));
  if (auto fault = check_batch(model_->spec(), *shared)) {
    fail(of_step, make_failure(errc::bad_index, *fault));
    return c;
  }
  c.answers.resize(shared->size > 0 ? exchange_.servers() : 0);
  if (c.answers.empty())
    c.plan.samples = std::move(shared);
  else
    c.plan = exchange_.prepare(std::move(shared));
  return c;
}

/// Goes over to the next batch: asks for its rows and, while they are on their way, prepares the batch after it.
void trainer_state::look_up_next() {
  current_ = std::move(*next_);
  next_.reset();
  look_up(current_);
  if (current_.step < total_steps_) next_ = prepare(current_.step + 1, data_->train_batch(current_.step, rank_));
}

void trainer_state::look_up(context& wanted) {
  for (std::size_t s = 0; s < wanted.answers.size(); ++s) {
    ++waiting_;
    lookup message{headers_.next(wanted.step, cause_), wanted.plan.lookups[s]};
    self_->request(exchange_.server(s), caf::infinite, std::move(message))
        .then(
            [this, s](rows& answer) {
              cause_ = id_of(answer.head);
              current_.answers[s] = std::move(answer);
              arrived();
            },
            [this](const caf::error& error) { fail(current_.step, error); });
  }
}

void trainer_state::arrived() {
  if (--waiting_ > 0 || failed_) return;
  switch (phase_) {
    case phase::looking_up:
      return compute();
    case phase::reducing:
      return step_done();
    case phase::evaluating:
      return score();
  }
}

// -- one step -----------------------------------------------------------------

void trainer_state::compute() {
  step = current_.step;
  phase_ = phase::reducing;
  const std::shared_ptr<const batch> samples = current_.plan.samples;
  if (failed_) return;
  open_buckets();
  if (samples->size > 0) {
    if (auto error = forward_backward(*samples)) return fail(step, error);
  } else {
    losses_.push_back(std::numeric_limits<double>::quiet_NaN());
    send_zeros();
  }
  if (failed_) return;
  send_gradients();
  // The rows of the next step are asked for now, unless the test rows come first.
  if (next_ && !evaluates()) look_up_next();
}

caf::error trainer_state::forward_backward(const batch& samples) {
  const mlp& network = model_->network();
  input_.resize(samples.size * model_->in_features());
  model_->place_dense(samples, input_.data());
  if (auto error = exchange_.pool(current_.plan, current_.answers, input_.data())) return error;
  float* outputs = network.forward(samples.size, weights_.data(), input_.data(), activations_);
  const double loss = model_->loss(samples, outputs);
  if (!std::isfinite(loss))
    return make_failure(errc::not_finite,
                        fmt::format("the loss is {}; try a smaller --dense-lr or --sparse-lr", kind_of(loss)));
  losses_.push_back(loss);
  const auto size = static_cast<double>(samples.size);
  epoch_loss_ += loss * size;
  epoch_samples_ += samples.size;
  progress_loss_ += loss * size;
  progress_samples_ += samples.size;

  const bool has_tables = exchange_.servers() > 0;
  if (has_tables) grad_input_.resize(input_.size());
  network.backward(
      samples.size, weights_.data(), input_.data(), activations_, outputs, has_tables ? grad_input_.data() : nullptr,
      [this](parameter_range range) { return gradient_at(range); }, [this](parameter_range range) { finished(range); });
  if (has_tables) check_finite(grad_input_, "the gradient of the tables' pooled rows");
  return {};
}

void trainer_state::open_buckets() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::size_t count = bucket_plan_[i].count;
    buckets_[i] = {tensor_buffer(count, 1), count};
  }
}

float* trainer_state::gradient_at(parameter_range range) {
  std::size_t i = 0;
  while (range.first < bucket_plan_[i].first) ++i;  // buckets run from the last parameters to the first
  return buckets_[i].grad.data() + (range.first - bucket_plan_[i].first);
}

/// A layer's gradients are written: if they were the last of their bucket, it goes to the group.
void trainer_state::finished(parameter_range range) {
  std::uint32_t i = 0;
  while (range.first < bucket_plan_[i].first) ++i;
  open_bucket& bucket = buckets_[i];
  bucket.missing -= range.count;
  if (bucket.missing > 0) return;
  check_finite({bucket.grad.data(), bucket.grad.size()}, "a dense gradient");
  if (!failed_) send_bucket(i);
}

void trainer_state::send_zeros() {
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    std::fill_n(buckets_[i].grad.data(), buckets_[i].grad.size(), 0.0F);
    send_bucket(i);
  }
}

void trainer_state::send_bucket(std::uint32_t bucket) {
  ++waiting_;
  reduce share{headers_.next(step, cause_),     rank_,        bucket,
               current_.plan.samples->size > 0, stop_wanted_, std::move(buckets_[bucket].grad).freeze()};
  self_->request(group_, caf::infinite, std::move(share))
      .then(
          [this](const reduced& mean) {
            cause_ = id_of(mean.head);
            apply(mean);
            arrived();
          },
          [this](const caf::error& error) { fail(step, error); });
}

void trainer_state::send_gradients() {
  const bool has_batch = current_.plan.samples->size > 0;
  std::vector<std::vector<bag_gradient>> grads(exchange_.servers());
  if (has_batch && !grads.empty()) grads = exchange_.gradients(current_.plan, grad_input_.data());
  for (std::size_t s = 0; s < grads.size(); ++s)
    self_->send(exchange_.server(s),
                gradient{headers_.next(step, cause_), rank_, has_batch, true, std::move(grads[s])});
}

void trainer_state::apply(const reduced& mean) {
  const parameter_range range = bucket_plan_[mean.bucket];
  const auto part = [&range](std::vector<float>& state) {
    return state.empty() ? nullptr : state.data() + range.first;
  };
  kernels::update_dense(constants_at(job_.dense_optimizer, step), range.count, part(weights_),
                        {part(first_state_), part(second_state_)}, mean.grad.as<float>().data());
  stopping_ = stopping_ || mean.stop;
}

void trainer_state::step_done() {
  if (rank_ == 0) report_progress();
  if (ends_epoch() || stopping_) report_epoch();
  if (stopping_ || (step == total_steps_ && !evaluates())) return finish();
  if (evaluates()) {
    phase_ = phase::evaluating;
    test_next_ = data_->test_rows() * rank_ / job_.trainers;
    test_end_ = data_->test_rows() * (rank_ + 1) / job_.trainers;
    predictions_ = {};
    return evaluate_next();
  }
  if (ends_epoch()) begin_epoch();
  compute();
}

// -- epochs -------------------------------------------------------------------

bool trainer_state::ends_epoch() const { return step % data_->steps_per_epoch() == 0 || step == total_steps_; }

/// Whether the test rows follow the step under way.
bool trainer_state::evaluates() const {
  if (job_.eval_every == 0 || data_->test_rows() == 0 || !ends_epoch()) return false;
  return step == total_steps_ || (step / data_->steps_per_epoch()) % job_.eval_every == 0;
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
  const std::uint64_t steps = losses_.size();
  self_->send(reports_,
              epoch_report{headers_.next(step, cause_), rank_, epoch_, steps, epoch_samples_, seconds.count(),
                           epoch_loss_, tensor::own(steps, 1, std::exchange(losses_, {})), evaluates() && !stopping_});
}

void trainer_state::report_progress() {
  constexpr std::chrono::milliseconds interval{100};
  const auto now = clock::now();
  if (progress_samples_ == 0 || now - last_progress_ < interval) return;
  last_progress_ = now;
  const std::chrono::duration<double> seconds = now - epoch_begin_;
  self_->send(reports_, progress{headers_.next(step, cause_), epoch_samples_, seconds.count(),
                                 std::exchange(progress_loss_, 0), std::exchange(progress_samples_, 0)});
}

/// Looks up the next of this rank's test rows, as they are after the step that has just been done.
void trainer_state::evaluate_next() {
  constexpr std::uint64_t rows_at_once = 1024;
  if (test_next_ < test_end_) {
    const std::uint64_t count = std::min(rows_at_once, test_end_ - test_next_);
    current_ = prepare(step + 1, data_->test_batch(test_next_, count));
    test_next_ += count;
    look_up(current_);
    if (waiting_ == 0 && !failed_) score();
    return;
  }
  const std::uint64_t scored = predictions_.scores.size();
  self_->send(reports_, evaluation{headers_.next(step, cause_), rank_, epoch_, predictions_.rows, predictions_.correct,
                                   tensor::own(scored, 1, std::exchange(predictions_.scores, {})),
                                   tensor::own(scored, 1, std::exchange(predictions_.labels, {})),
                                   predictions_.log_loss_sum, predictions_.probability_sum});
  if (step == total_steps_) return finish();
  begin_epoch();
  phase_ = phase::looking_up;
  look_up_next();
  if (waiting_ == 0 && !failed_) compute();
}

void trainer_state::score() {
  const batch& samples = *current_.plan.samples;
  input_.resize(samples.size * model_->in_features());
  model_->place_dense(samples, input_.data());
  if (auto error = exchange_.pool(current_.plan, current_.answers, input_.data())) return fail(step, error);
  const float* outputs = model_->network().forward(samples.size, weights_.data(), input_.data(), activations_);
  check_finite({outputs, samples.size * model_->network().out_features()}, "an output for a test row");
  if (failed_) return;
  predict(model_->spec(), job_.loss, samples, outputs, predictions_);
  evaluate_next();
}

void trainer_state::finish() {
  check_finite(weights_, "a dense weight");
  if (failed_) return;
  const std::uint64_t count = weights_.size();
  promise_.deliver(trained{headers_.next(step, cause_), step, stopping_, tensor::own(count, 1, std::move(weights_))});
}

void trainer_state::check_finite(std::span<const float> numbers, const char* what) {
  const std::size_t bad = kernels::find_non_finite(numbers.size(), numbers.data());
  if (bad < numbers.size())
    fail(step, make_failure(errc::not_finite, fmt::format("{} is {} (number {} of {}); try a smaller --dense-lr or "
                                                          "--sparse-lr",
                                                          what, kind_of(numbers[bad]), bad, numbers.size())));
}

trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                     std::uint32_t servers) {
  self->state.start(run, rank, servers);
  fail_on_exceptions(self);
  return {
      [self](train& order) { return self->state.handle(order); },
      [self](const stop& order) { self->state.handle(order); },
  };
}

}  // namespace troupe
