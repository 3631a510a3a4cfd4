// The trainer's step: forward, loss, backward, and what becomes of the gradient.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/faults.hpp"
#include "actors/inline_execution.hpp"
#include "actors/run_in.hpp"
#include "actors/trainer.hpp"
#include "kernels/elementwise.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

namespace {

const char* kind_of(double not_finite) { return std::isnan(not_finite) ? "NaN" : "Inf"; }

}  // namespace

void trainer_state::compute() {
  phase_ = phase::reducing;
  computed_ = std::move(ahead_.front());
  ahead_.pop_front();
  step = computed_.step;
  trace.step_begins(step);
  count_staleness();
  look_up_through(step + lookups_ahead());

  if (begins_update()) open_buckets();
  has_gradient_ = false;
  if (computed_.plan.samples->size > 0) {
    if (auto error = backward_inputs(*computed_.plan.samples)) return fail(step, error);
  } else {
    losses_.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  if (failed_) return;
  const auto rest = [this] {
    backward_parameters();
    prepare_next();
  };
  const bool long_rest = has_gradient_ && is_long(*computed_.plan.samples);
  if (long_rest) after_others(rest);
  send_gradients();
  if (failed_) return;
  if (concludes() && ends_update()) ask_for_norms();
  look_up_through(step + 1);
  if (!long_rest) rest();
}

void trainer_state::count_staleness() {
  for (const rows& answer : computed_.answers) {
    ++lookups_;
    staleness_sum_ += answer.missing;
    staleness_max_ = std::max(staleness_max_, answer.missing);
  }
}

/// Whether a step's backward pass takes so long that others should not wait for its thread.
bool trainer_state::is_long(const batch& samples) const {
  constexpr std::size_t many_multiplications = std::size_t{1} << 22;  // about as long as a thread takes to wake up
  return samples.size * model_->parameter_count() >= many_multiplications;
}

/// Does `what` when the actors that messages are sent to from now on have had a turn on this thread, or when another
/// thread is free: a worker runs those first that became ready last.
void trainer_state::after_others(std::function<void()> what) {
  ++waiting_;
  self_->spawn<caf::hidden>(
      [me = caf::strong_actor_ptr(self_->ctrl()), what, this](caf::event_based_actor* turn) mutable {
        const auto go_on = [what, this] {
          const actor_trace::turn as_turn(trace, step);
          what();
          arrived();
        };
        // Links are read on a thread that runs actors too.
        const bool on_link_thread = dynamic_cast<inline_execution*>(turn->context()) != nullptr;
        run_in(me, go_on, on_link_thread ? nullptr : turn->context());
      });
}

/// Forward, loss, and backward to the rows of the tables.
caf::error trainer_state::backward_inputs(const batch& samples) {
  const actor_trace::range working(trace, trace::range_name::forward_backward, step);
  input_.resize(samples.size * model_->in_features());
  model_->place_dense(samples, input_.data());
  if (auto error = exchange_.pool(computed_.plan, computed_.answers, input_.data())) return error;
  if (job_.nan == nan_policy::stop)
    if (auto error = exchange_.check_rows(computed_.plan, computed_.answers)) return error;
  grad_outputs_ = model_->forward(samples.size, weights_.data(), input_.data(), activations_);
  const double loss = model_->loss(samples, grad_outputs_);
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

  has_gradient_ = true;
  const bool has_tables = exchange_.servers() > 0;
  if (has_tables) grad_input_.resize(input_.size());
  model_->backward_inputs(samples.size, weights_.data(), input_.data(), activations_, grad_outputs_,
                          has_tables ? grad_input_.data() : nullptr);
  if (has_tables) check_gradient(grad_input_, "the gradient of the tables' pooled rows");
  return {};
}

void trainer_state::backward_parameters() {
  if (!has_gradient_) {
    if (ends_update()) send_buckets();
    return;
  }
  ++batches_;
  const actor_trace::range working(trace, trace::range_name::backward_parameters, step);
  model_->backward_parameters(
      computed_.plan.samples->size, input_.data(), activations_, grad_outputs_,
      [this](parameter_range range) { return gradient_at(range); }, [this](parameter_range range) { finished(range); });
}

/// A new optimizer step: empty buckets.
void trainer_state::open_buckets() {
  batches_ = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] = {tensor_buffer(bucket_plan_[i].count, 1), 0, false};
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
}

/// Sends the buckets where no backward pass does.
void trainer_state::send_buckets() {
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    if (batches_ == 0) std::fill_n(buckets_[i].grad.data(), buckets_[i].grad.size(), 0.0F);
    send_bucket(i);
  }
}

void trainer_state::send_bucket(std::uint32_t bucket) {
  if (auto* wrong = faults(); wrong != nullptr && wrong->skips_reduce(rank_, step, bucket)) return;
  ++waiting_;
  buckets_[bucket].is_sent = true;
  reduce share{trace.next(step), rank_, bucket, batches_, stop_wanted_, std::move(buckets_[bucket].grad).freeze()};
  ask<reduced>(group_, group_number_, std::move(share), [this](const reduced& mean) {
    take(mean);
    arrived();
  });
}

void trainer_state::send_gradients() {
  std::vector<std::vector<bag_gradient>> grads(exchange_.servers());
  if (has_gradient_ && !grads.empty()) {
    if (auto* wrong = faults()) wrong->gradient(rank_, step, grad_input_);
    grads = exchange_.gradients(computed_.plan, grad_input_.data());
    if (job_.nan == nan_policy::stop)
      if (auto error = exchange_.check_gradients(computed_.plan, grads)) return fail(step, error);
  }
  const bool rides = ends_update() && !concludes();
  for (std::size_t s = 0; s < grads.size(); ++s)
    self_->send(exchange_.server(s), gradient{trace.next(step), rank_, has_gradient_, rides, std::move(grads[s])});
}

void trainer_state::take(const reduced& mean) {
  buckets_[mean.bucket].is_sent = false;
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
  norm_missing_.assign(exchange_.servers(), true);
  for (std::size_t s = 0; s < exchange_.servers(); ++s) {
    ++waiting_;
    ask<squared_norm>(exchange_.server(s), server_number(exchange_.rank(s)), gradient_norm{trace.next(step), rank_},
                      [this, s](const squared_norm& share) {
                        norm_missing_[s] = false;
                        const auto sum = exact_sum::from(share.limbs.as<std::int64_t>());
                        if (!sum) return fail(step, make_failure(errc::shape_mismatch, "a norm that is no sum"));
                        table_norm_.merge(*sum);
                        arrived();
                      });
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
    ask<committed>(exchange_.server(s), server_number(exchange_.rank(s)),
                   optimizer_step{trace.next(step), rank_, applies, factor}, [](const committed&) {});
  if (!applies) {
    ++skipped_;
    return;
  }
  if (factor != 1)
    for (float& g : mean_grad_) g *= factor;
  apply({0, weights_.size()}, mean_grad_.data());
}

void trainer_state::step_done() {
  trace.step_ends(step + 1);
  if (rank_ == 0) report_progress();
  if (completes_epoch()) report_epoch();
  if (evaluates() && !stopping_) return begin_evaluation();
  save_or_go_on();
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

}  // namespace troupe
