#include "actors/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "actors/actor_name.hpp"
#include "kernels/elementwise.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t test_rows_at_once = 1024;

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
  epoch_samples_ = order.from.samples;
  epoch_loss_ = order.from.loss_sum;
  epoch_begin_ -= std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(order.from.seconds));
  if (step == total_steps_) {
    if (!completes_epoch() && evaluates())
      begin_evaluation();
    else
      save_or_go_on();
  } else {
    next_ = prepare(step + 1, data_->train_batch(step, rank_));
    look_up_next();
  }
  advance();
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
  model_ = std::make_unique<hybrid_model>(data_->spec(), job_);
  exchange_ = table_exchange(*model_, std::move(order.tables));
  group_ = order.group;
  reports_ = order.reports;
  saves_ = order.saves;
  checkpoint_every_ = order.checkpoint_every;

  auto given = data_->start();
  weights_ = given ? std::move(given->dense) : model_->initial_parameters(job_.seed);
  if (weights_.size() != model_->parameter_count())
    return make_failure(errc::shape_mismatch, fmt::format("{} initial dense weights for a network of {}",
                                                          weights_.size(), model_->parameter_count()));
  const int buffers = state_buffers(job_.dense_optimizer);
  if (buffers >= 1) first_state_.assign(weights_.size(), initial_state(job_.dense_optimizer));
  if (buffers >= 2) second_state_.assign(weights_.size(), 0.0F);

  constexpr double first_bucket_mib = 1;
  constexpr double mib = 1024 * 1024;
  bucket_plan_ =
      plan_buckets(model_->ranges(), static_cast<std::size_t>(std::min(job_.bucket_mib, first_bucket_mib) * mib),
                   static_cast<std::size_t>(job_.bucket_mib * mib));
  buckets_.resize(bucket_plan_.size());
  return restore(order.from);
}

caf::error trainer_state::restore(const trainer_position& from) {
  step = from.steps_done;
  epoch_ = step / data_->steps_per_epoch();
  if (from.dense.empty()) return {};
  std::vector<std::vector<float>*> buffers = {&weights_};
  for (auto* state : {&first_state_, &second_state_})
    if (!state->empty()) buffers.push_back(state);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (from.dense.size() != buffers.size() || from.dense[i].as<float>().size() != buffers[i]->size())
      return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
    const auto numbers = from.dense[i].as<float>();
    buffers[i]->assign(numbers.begin(), numbers.end());
  }
  return {};
}

trainer_state::context trainer_state::prepare(std::uint64_t of_step, result<batch>&& samples) {
  context c;
  c.step = of_step;
  if (!samples) {
    fail(of_step, make_failure(errc::bad_input, samples.error().message));
    return c;
  }
  auto shared = std::make_shared<const batch>(std::move(*samples));
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
  look_up(current_, job_.staleness);
  if (current_.step < total_steps_) next_ = prepare(current_.step + 1, data_->train_batch(current_.step, rank_));
}

void trainer_state::look_up(context& wanted, std::uint32_t staleness) {
  for (std::size_t s = 0; s < wanted.answers.size(); ++s) {
    ++waiting_;
    lookup message{headers_.next(wanted.step, cause_), wanted.plan.lookups[s], staleness};
    self_->request(exchange_.server(s), caf::infinite, std::move(message))
        .then(
            [this, s](rows& answer) {
              cause_ = id_of(answer.head);
              if (phase_ != phase::evaluating) {
                ++lookups_;
                staleness_sum_ += answer.missing;
                staleness_max_ = std::max(staleness_max_, answer.missing);
              }
              current_.answers[s] = std::move(answer);
              arrived();
            },
            [this](const caf::error& error) { fail(current_.step, error); });
  }
}

void trainer_state::arrived() {
  --waiting_;
  advance();
}

/// Goes on as long as nothing is waited for.
void trainer_state::advance() {
  while (waiting_ == 0 && !failed_) {
    switch (phase_) {
      case phase::looking_up:
        compute();
        break;
      case phase::reducing:
        if (concludes() && ends_update()) conclude();
        if (!failed_) step_done();
        break;
      case phase::evaluating:
        score();
        break;
      case phase::saving:
        go_on();
        break;
      case phase::done:
        return;
    }
  }
}

// -- one step -----------------------------------------------------------------

void trainer_state::compute() {
  step = current_.step;
  phase_ = phase::reducing;
  computed_ = std::move(current_);
  // The rows of the next step are asked for as soon as they may be, unless the test rows come first.
  const bool ask_next = next_ && !evaluates();
  const bool before = job_.staleness > 0;
  if (ask_next && before) look_up_next();

  if (begins_update()) open_buckets();
  has_gradient_ = false;
  if (computed_.plan.samples->size > 0) {
    if (auto error = forward_backward(*computed_.plan.samples)) return fail(step, error);
  } else {
    losses_.push_back(std::numeric_limits<double>::quiet_NaN());
    if (ends_update()) send_buckets();
  }
  if (failed_) return;
  send_gradients();
  const bool concluding = concludes() && ends_update();
  if (concluding) ask_for_norms();
  if (ask_next && !before && !concluding) look_up_next();
}

caf::error trainer_state::forward_backward(const batch& samples) {
  input_.resize(samples.size * model_->in_features());
  model_->place_dense(samples, input_.data());
  if (auto error = exchange_.pool(computed_.plan, computed_.answers, input_.data())) return error;
  float* outputs = model_->forward(samples.size, weights_.data(), input_.data(), activations_);
  const double loss = model_->loss(samples, outputs);
  losses_.push_back(loss);
  if (!std::isfinite(loss)) {
    if (job_.nan == nan_policy::skip) {
      spoil();
      return {};
    }
    return make_failure(errc::not_finite,
                        fmt::format("the loss is {}; try a smaller --dense-lr or --sparse-lr", kind_of(loss)));
  }
  const auto size = static_cast<double>(samples.size);
  epoch_loss_ += loss * size;
  epoch_samples_ += samples.size;
  progress_loss_ += loss * size;
  progress_samples_ += samples.size;

  ++batches_;
  const bool has_tables = exchange_.servers() > 0;
  if (has_tables) grad_input_.resize(input_.size());
  model_->backward(
      samples.size, weights_.data(), input_.data(), activations_, outputs, has_tables ? grad_input_.data() : nullptr,
      [this](parameter_range range) { return gradient_at(range); }, [this](parameter_range range) { finished(range); });
  has_gradient_ = true;
  if (has_tables) check_gradient(grad_input_, "the gradient of the tables' pooled rows");
  return {};
}

/// A new optimizer step: empty buckets.
void trainer_state::open_buckets() {
  batches_ = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] = {tensor_buffer(bucket_plan_[i].count, 1), 0};
}

/// The bucket of a layer's parameters.
std::uint32_t trainer_state::bucket_of(parameter_range range) const {
  std::uint32_t i = 0;
  while (range.first < bucket_plan_[i].first) ++i;  // buckets run from the last parameters to the first
  return i;
}

float* trainer_state::in_bucket(parameter_range range) {
  const std::uint32_t i = bucket_of(range);
  return buckets_[i].grad.data() + (range.first - bucket_plan_[i].first);
}

/// Where the backward pass puts a layer's gradient: the first batch straight into the bucket.
float* trainer_state::gradient_at(parameter_range range) {
  if (batches_ == 1) return in_bucket(range);
  further_grad_.resize(std::max(further_grad_.size(), range.count));
  return further_grad_.data();
}

/// A layer's gradients are written: if they were the last of their bucket, it goes to the group.
void trainer_state::finished(parameter_range range) {
  if (batches_ > 1) {
    float* sum = in_bucket(range);
    const std::array<const float*, 2> parts = {sum, further_grad_.data()};
    kernels::sum_in_rank_order(parts, range.count, 1.0F, sum);
  }
  if (!ends_update()) return;
  const std::uint32_t i = bucket_of(range);
  open_bucket& bucket = buckets_[i];
  bucket.written += range.count;
  if (bucket.written < bucket_plan_[i].count) return;
  check_gradient({bucket.grad.data(), bucket.grad.size()}, "a dense gradient");
  if (!failed_) send_bucket(i);
}

/// A batch without a loss spoils the optimizer step; that shows in what the ranks add up, so all of them learn it.
void trainer_state::spoil() {
  batches_ = std::max(batches_, 1U);
  for (open_bucket& bucket : buckets_)
    std::fill_n(bucket.grad.data(), bucket.grad.size(), std::numeric_limits<float>::quiet_NaN());
  if (ends_update()) send_buckets();
}

/// Sends the buckets where no backward pass does.
void trainer_state::send_buckets() {
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    if (batches_ == 0) std::fill_n(buckets_[i].grad.data(), buckets_[i].grad.size(), 0.0F);
    send_bucket(i);
  }
}

void trainer_state::send_bucket(std::uint32_t bucket) {
  ++waiting_;
  reduce share{
      headers_.next(step, cause_), rank_, bucket, batches_, stop_wanted_, std::move(buckets_[bucket].grad).freeze()};
  self_->request(group_, caf::infinite, std::move(share))
      .then(
          [this](const reduced& mean) {
            cause_ = id_of(mean.head);
            take(mean);
            arrived();
          },
          [this](const caf::error& error) { fail(step, error); });
}

void trainer_state::send_gradients() {
  std::vector<std::vector<bag_gradient>> grads(exchange_.servers());
  if (has_gradient_ && !grads.empty()) grads = exchange_.gradients(computed_.plan, grad_input_.data());
  const bool rides = ends_update() && !concludes();
  for (std::size_t s = 0; s < grads.size(); ++s)
    self_->send(exchange_.server(s),
                gradient{headers_.next(step, cause_), rank_, has_gradient_, rides, std::move(grads[s])});
}

void trainer_state::take(const reduced& mean) {
  stopping_ = stopping_ || mean.stop;
  const parameter_range range = bucket_plan_[mean.bucket];
  const float* grad = mean.grad.as<float>().data();
  if (!concludes()) return apply(range, grad);
  mean_grad_.resize(weights_.size());
  std::copy_n(grad, range.count, mean_grad_.data() + range.first);
}

void trainer_state::apply(parameter_range range, const float* grad) {
  const auto part = [&range](std::vector<float>& state) {
    return state.empty() ? nullptr : state.data() + range.first;
  };
  kernels::update_dense(constants_at(job_.dense_optimizer, update()), range.count, part(weights_),
                        {part(first_state_), part(second_state_)}, grad);
}

void trainer_state::ask_for_norms() {
  table_norm_ = {};
  for (std::size_t s = 0; s < exchange_.servers(); ++s) {
    ++waiting_;
    self_->request(exchange_.server(s), caf::infinite, gradient_norm{headers_.next(step, cause_), rank_})
        .then(
            [this](const squared_norm& share) {
              cause_ = id_of(share.head);
              const auto sum = exact_sum::from(share.limbs.as<std::int64_t>());
              if (!sum) return fail(step, make_failure(errc::shape_mismatch, "a norm that is no sum"));
              table_norm_.merge(*sum);
              arrived();
            },
            [this](const caf::error& error) { fail(step, error); });
  }
}

/// Every rank has the same reduced gradient and the same norms here, so all of them do the same with it: apply it,
/// clipped by its global norm as PyTorch's clip_grad_norm_ does, or leave this optimizer step out.
void trainer_state::conclude() {
  const double norm = std::sqrt(kernels::squared_norm(mean_grad_.size(), mean_grad_.data()) + table_norm_.value());
  if (!std::isfinite(norm) && job_.nan == nan_policy::stop)
    return fail(step, make_failure(errc::not_finite, fmt::format("the gradient's norm is {}; try a smaller --dense-lr "
                                                                 "or --sparse-lr",
                                                                 kind_of(norm))));
  const bool applies = std::isfinite(norm);
  float factor = 1;
  if (job_.clip_norm > 0 && applies) {
    constexpr double no_zero = 1e-6;
    factor = static_cast<float>(std::min(1.0, job_.clip_norm / (norm + no_zero)));
  }
  for (std::size_t s = 0; s < exchange_.servers(); ++s)
    self_
        ->request(exchange_.server(s), caf::infinite,
                  optimizer_step{headers_.next(step, cause_), rank_, applies, factor})
        .then([](const committed&) {}, [this](const caf::error& error) { fail(step, error); });
  if (!applies) {
    ++skipped_;
    return;
  }
  if (factor != 1)
    for (float& g : mean_grad_) g *= factor;
  apply({0, weights_.size()}, mean_grad_.data());
}

void trainer_state::step_done() {
  if (rank_ == 0) report_progress();
  if (completes_epoch()) report_epoch();
  if (evaluates() && !stopping_) return begin_evaluation();
  save_or_go_on();
}

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
  if (next_ && next_->step == step + 1) look_up_next();
}

// -- epochs -------------------------------------------------------------------

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

/// Stands still until all actors' states after this step are on disk, or could not be written.
void trainer_state::save() {
  phase_ = phase::saving;
  ++waiting_;
  const auto begin = clock::now();
  const std::chrono::duration<double> seconds = begin - epoch_begin_;
  save_dense share{headers_.next(step, cause_), rank_, 0, 0, 0, skipped_, {}};
  if (!completes_epoch())
    std::tie(share.samples, share.loss_sum, share.seconds) = std::tuple(epoch_samples_, epoch_loss_, seconds.count());
  if (rank_ == 0)
    for (const auto* numbers : {&weights_, &first_state_, &second_state_})
      if (!numbers->empty()) share.dense.push_back(tensor::own(numbers->size(), 1, std::vector<float>(*numbers)));
  self_->request(reports_, caf::infinite, std::move(share))
      .then(
          [this, begin](const committed& answer) {
            cause_ = id_of(answer.head);
            epoch_begin_ += clock::now() - begin;
            arrived();
          },
          [this](const caf::error& error) { fail(step, error); });
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
  self_->send(reports_, epoch_report{headers_.next(step, cause_), rank_, epoch_, steps, epoch_samples_, seconds.count(),
                                     epoch_loss_, tensor::own(count, 1, std::exchange(losses_, {})),
                                     evaluates() && !stopping_, std::exchange(skipped_, 0), std::exchange(lookups_, 0),
                                     std::exchange(staleness_sum_, 0), std::exchange(staleness_max_, 0)});
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

void trainer_state::begin_evaluation() {
  phase_ = phase::evaluating;
  test_next_ = rank_ * test_rows_at_once;
  predictions_ = {};
  evaluate_next();
}

/// Looks up the next of this rank's test rows, as they are after the step that has just been done. The ranks take turns
/// in chunks of the test rows, so that they go through a file together.
void trainer_state::evaluate_next() {
  if (test_next_ < data_->test_rows()) {
    const std::uint64_t count = std::min(test_rows_at_once, data_->test_rows() - test_next_);
    current_ = prepare(step + 1, data_->test_batch(test_next_, count));
    test_next_ += test_rows_at_once * job_.trainers;
    return look_up(current_, 0);
  }
  const std::uint64_t scored = predictions_.scores.size();
  self_->send(reports_, evaluation{headers_.next(step, cause_), rank_, epoch_, predictions_.rows, predictions_.correct,
                                   tensor::own(scored, 1, std::exchange(predictions_.scores, {})),
                                   tensor::own(scored, 1, std::exchange(predictions_.labels, {})),
                                   predictions_.log_loss_sum, predictions_.probability_sum});
  save_or_go_on();
}

void trainer_state::score() {
  const batch& samples = *current_.plan.samples;
  input_.resize(samples.size * model_->in_features());
  model_->place_dense(samples, input_.data());
  if (auto error = exchange_.pool(current_.plan, current_.answers, input_.data())) return fail(step, error);
  const float* outputs = model_->forward(samples.size, weights_.data(), input_.data(), activations_);
  check_finite({outputs, samples.size * model_->out_features()}, "an output for a test row");
  if (failed_) return;
  predict(model_->spec(), job_.loss, samples, outputs, predictions_);
  evaluate_next();
}

void trainer_state::finish() {
  check_finite(weights_, "a dense weight");
  if (failed_) return;
  phase_ = phase::done;
  const std::uint64_t count = weights_.size();
  promise_.deliver(trained{headers_.next(step, cause_), step, stopping_, tensor::own(count, 1, std::move(weights_))});
}

/// Where the policy is skip, ranks find out together when they conclude.
void trainer_state::check_gradient(std::span<const float> numbers, const char* what) {
  if (job_.nan == nan_policy::stop) check_finite(numbers, what);
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
