// The trainer's step: forward, loss, backward, and what becomes of the gradient.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/device_tensor.hpp"
#include "actors/faults.hpp"
#include "actors/inline_execution.hpp"
#include "actors/run_in.hpp"
#include "actors/trainer.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

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
  look_up_through(step + lookups_ahead(job_.staleness));

  if (begins_update()) open_buckets();
  has_gradient_ = false;
  if (computed_.plan.samples->size > 0) {
    if (auto error = backward_inputs(*computed_.plan.samples)) return fail(step, error);
  } else {
    synchronize();  // instead of waiting for a loss: see `inputs_`
    judge_checks(step - 1);
    losses_.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  if (failed_) return;
  const auto rest = [this] {
    reduce_gradient();
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
  return is_on_host() && samples.size * model_->parameter_count() >= many_multiplications;
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

/// Forward, loss, and backward to the rows of the tables. On a device the backward pass goes on while the host waits
/// for the loss.
caf::error trainer_state::backward_inputs(const batch& samples) {
  if (auto error = begin_pass(samples)) return error;
  if (is_on_host()) return end_pass(samples);
  const auto fetched = copies_->record();
  backward_parameters();
  const actor_trace::range working(trace, trace::range_name::forward_backward, step);
  fetched->wait();
  return end_pass(samples);
}

/// Has all that is needed on the host copied there behind the pass.
caf::error trainer_state::begin_pass(const batch& samples) {
  const actor_trace::range working(trace, trace::range_name::forward_backward, step, trace.latest());
  input().resize(*compute_, samples.size, model_->in_features());
  if (auto error = exchange_.pool(computed_.plan, computed_.answers, *copies_, input())) return error;
  if (job_.nan == nan_policy::stop)
    if (auto error = exchange_.check_rows(computed_.plan, computed_.answers)) return error;
  const bool has_tables = exchange_.servers() > 0;
  if (has_tables) {
    if (!is_on_host()) grad_input_.let_go();  // servers may be reading the last one
    grad_input_.resize(*compute_, samples.size * model_->in_features());
  }
  const hybrid_model::targets targets{classes_.put(*copies_, samples.classes), values_.put(*copies_, samples.values)};
  compute_->wait(*copies_->record());
  pass_to_inputs(samples.size, targets);
  if (has_tables && job_.nan == nan_policy::stop)
    look_for_non_finite(grad_input_.data(), grad_input_.size(), "the gradient of the tables' pooled rows");
  passed_ = compute_->record();
  copies_->wait(*passed_);
  scalars_.download(*copies_);
  fetch_checks(*copies_);
  if (has_tables && exchange_.needs_host(computed_.plan)) grad_input_.download(*copies_);
  return {};
}

/// Judges the loss.
caf::error trainer_state::end_pass(const batch& samples) {
  forget_means();
  judge_checks(step - 1);
  if (failed_) return {};

  const double loss = *scalars_.host();
  losses_.push_back(loss);
  if (!std::isfinite(loss)) {
    if (job_.nan == nan_policy::skip) {
      if (!is_on_host()) --batches_;
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
  judge_checks(step);
  return {};
}

/// From the input to its gradient, by way of the loss.
void trainer_state::pass_to_inputs(std::size_t size, const hybrid_model::targets& targets) {
  const auto pass = [&] {
    float* outputs = model_->forward(*compute_, size, weights_.data(), input().data(), activations_);
    model_->loss(*compute_, size, targets, outputs, scalars_.data());
    model_->backward_inputs(*compute_, size, weights_.data(), input().data(), activations_, outputs,
                            exchange_.servers() > 0 ? grad_input_.data() : nullptr);
  };
  if (is_on_host()) {
    pass();
  } else {
    // What the pass will be given: soon always one of a few, when no buffer has to grow any more.
    std::vector<const void*> given = {input().data(), grad_input_.data(), targets.classes, targets.values};
    activations_.append_addresses(given);
    const std::size_t passes_max = 16 * inputs_.size();  // ragged batches have many sizes
    std::pair which{size, std::move(given)};
    if (passes_.size() >= passes_max && !passes_.contains(which)) passes_.clear();
    compute_->repeat(passes_[std::move(which)], pass);
  }
  grad_outputs_ = activations_.outputs();
}

/// Gives the group the gradient, which the processor still has to compute.
void trainer_state::reduce_gradient() {
  if (has_gradient_ && is_on_host()) return backward_parameters();
  if (ends_update()) send_buckets();
}

void trainer_state::backward_parameters() {
  ++batches_;
  const actor_trace::range working(trace, trace::range_name::backward_parameters, step);
  model_->backward_parameters(
      *compute_, computed_.plan.samples->size, input().data(), activations_, grad_outputs_,
      [this](parameter_range range) { return gradient_at(range); }, [this](parameter_range range) { finished(range); });
}

/// A new optimizer step: empty buckets.
void trainer_state::open_buckets() {
  batches_ = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    buckets_[i] = {is_on_host() ? tensor_buffer(bucket_plan_[i].count, 1) : tensor_buffer(), {}, 0, false};
}

/// The bucket of a layer's parameters.
std::uint32_t trainer_state::bucket_of(parameter_range range) const {
  std::uint32_t i = 0;
  while (range.first < bucket_plan_[i].first) ++i;  // buckets run from the last parameters to the first
  return i;
}

float* trainer_state::in_bucket(parameter_range range) {
  if (!is_on_host()) return grads_.data() + range.first;
  const std::uint32_t i = bucket_of(range);
  return buckets_[i].grad.data() + (range.first - bucket_plan_[i].first);
}

/// What a bucket has become, for a message. Nobody writes it before the group has answered.
tensor trainer_state::seal_bucket(std::uint32_t bucket) {
  if (is_on_host()) return std::move(buckets_[bucket].grad).freeze();
  if (buckets_[bucket].sealed.rows > 0) return std::exchange(buckets_[bucket].sealed, {});
  const parameter_range range = bucket_plan_[bucket];
  return on_device({&compute_->where(), range.count, 1, {grads_.data() + range.first, 1}, grads_.owner()},
                   compute_->record());
}

/// Where the backward pass puts a layer's gradient: the first batch straight into the bucket.
float* trainer_state::gradient_at(parameter_range range) {
  if (batches_ == 1) return in_bucket(range);
  further_grad_.resize(*compute_, std::max(further_grad_.size(), range.count));
  return further_grad_.data();
}

/// A layer's gradients are written: if they were the last of their bucket, it goes to the group; from a device, where
/// they are about to be written, it will go there when the loss is known.
void trainer_state::finished(parameter_range range) {
  if (batches_ > 1) {
    float* sum = in_bucket(range);
    const std::array<const float*, 2> parts = {sum, further_grad_.data()};
    compute_->sum_in_rank_order(parts, range.count, 1.0F, sum);
  }
  if (!ends_update()) return;
  const std::uint32_t i = bucket_of(range);
  open_bucket& bucket = buckets_[i];
  bucket.written += range.count;
  if (bucket.written < bucket_plan_[i].count) return;
  if (job_.nan == nan_policy::stop)
    look_for_non_finite(in_bucket(bucket_plan_[i]), bucket_plan_[i].count, "a dense gradient");
  if (!is_on_host()) {
    bucket.sealed = seal_bucket(i);
    return;
  }
  fetch_checks(*compute_);
  judge_checks(step);
  if (!failed_) send_bucket(i);
}

/// A batch without a loss spoils the optimizer step; that shows in what the ranks add up, so all of them learn it.
void trainer_state::spoil() {
  batches_ = std::max(batches_, 1U);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    compute_->fill(bucket_plan_[i].count, std::numeric_limits<float>::quiet_NaN(), in_bucket(bucket_plan_[i]));
    buckets_[i].sealed = {};
  }
}

/// Sends the buckets where no backward pass does.
void trainer_state::send_buckets() {
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    if (batches_ == 0) compute_->fill(bucket_plan_[i].count, 0.0F, in_bucket(bucket_plan_[i]));
    send_bucket(i);
  }
}

void trainer_state::send_bucket(std::uint32_t bucket) {
  if (auto* wrong = faults(); wrong != nullptr && wrong->skips_reduce(rank_, step, bucket)) return;
  ++waiting_;
  buckets_[bucket].is_sent = true;
  reduce share{trace.next(step), rank_, bucket, batches_, stop_wanted_, seal_bucket(bucket)};
  ask<reduced>(group_, group_number_, std::move(share), [this](const reduced& mean) {
    take(mean);
    arrived();
  });
}

void trainer_state::send_gradients() {
  std::vector<std::vector<bag_gradient>> grads(exchange_.servers());
  if (has_gradient_ && !grads.empty()) {
    if (auto* wrong = faults()) wrong->gradient(rank_, step, {grad_input_.host(), grad_input_.size()});
    grads = exchange_.gradients(computed_.plan, grad_input_, passed_);
    if (job_.nan == nan_policy::stop)
      if (auto error = exchange_.check_gradients(computed_.plan, grads)) return fail(step, error);
  }
  const bool rides = ends_update() && !concludes();
  for (std::size_t s = 0; s < grads.size(); ++s) {
    gradient message{trace.next(step), rank_, has_gradient_, rides, std::move(grads[s])};
    if (auto* wrong = faults()) wrong->signs(rank_, step, message);
    self_->send(exchange_.server(s), std::move(message));
  }
}

void trainer_state::take(const reduced& mean) {
  buckets_[mean.bucket].is_sent = false;
  stopping_ = stopping_ || mean.stop;
  const parameter_range range = bucket_plan_[mean.bucket];
  const float* grad = mean.grad.as<float>().data();
  if (const device_block* where = block_of(mean.grad.bytes)) {
    compute_->wait(where->written());
    means_.push_back(mean.grad.bytes);
  }
  if (!concludes()) return apply(range, grad);
  mean_grad_.resize(*compute_, weights_.size());
  compute_->copy(grad, mean_grad_.data() + range.first, range.count * sizeof(float));
}

void trainer_state::apply(parameter_range range, const float* grad) {
  const auto part = [&range](const kernels::device_array<float>& state) {
    return state.size() == 0 ? nullptr : state.data() + range.first;
  };
  compute_->update_dense(constants_at(job_.dense_optimizer, update()), range.count, part(weights_),
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
  compute_->squared_norm(mean_grad_.size(), mean_grad_.data(), scalars_.data());
  scalars_.download(*compute_);
  synchronize();
  judge_checks(step);
  if (failed_) return;
  const double norm = std::sqrt(*scalars_.host() + table_norm_.value());
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
  if (factor != 1) compute_->multiply(mean_grad_.size(), factor, mean_grad_.data());
  apply({0, weights_.size()}, mean_grad_.data());
}

void trainer_state::step_done() {
  trace.step_ends(step + 1);
  if (rank_ == 0) report_progress();
  if (completes_epoch()) report_epoch();
  if (evaluates() && !stopping_) return begin_evaluation();
  save_or_go_on();
}

/// Begins to look for a NaN or Inf, which `judge_checks` tells.
void trainer_state::look_for_non_finite(const float* numbers, std::size_t count, const char* what) {
  if (open_checks_.size() == check_results_.size()) {
    synchronize();
    judge_checks(step);
  }
  compute_->find_non_finite(count, numbers, check_results_.data() + next_check_++ % check_results_.size());
  open_checks_.push_back({step, count, what});
}

/// Has the outcome of what has been looked for until now copied to the host, and nothing beside it: what is looked for
/// next may be written meanwhile.
void trainer_state::fetch_checks(kernels::stream& on) {
  fetched_checks_ = open_checks_.size();
  const std::size_t first = (next_check_ - fetched_checks_) % check_results_.size();
  const std::size_t until_end = std::min(fetched_checks_, check_results_.size() - first);
  check_results_.download(on, first, until_end);
  check_results_.download(on, 0, fetched_checks_ - until_end);
}

/// Waits for the device, and fetches what has been found until then.
void trainer_state::synchronize() {
  fetch_checks(*compute_);
  compute_->synchronize();
  forget_means();
}

/// The host has waited for the device to use them. Throws if they are not what they should be.
void trainer_state::forget_means() {
  for (const blob& mean : means_)
    if (block_of(mean)->is_lost()) throw kernels::device_error("an allreduce on CUDA devices was given up");
  means_.clear();
}

/// Fails with what has been found, of what has been fetched, in the steps up to `last_step`.
void trainer_state::judge_checks(std::uint64_t last_step) {
  while (fetched_checks_ > 0 && open_checks_.front().step <= last_step && !failed_) {
    const open_check one = open_checks_.front();
    const std::uint64_t number = next_check_ - open_checks_.size();
    const kernels::non_finite found = check_results_.host()[number % check_results_.size()];
    open_checks_.pop_front();
    --fetched_checks_;
    if (found.place >= one.count) continue;
    fail(one.step,
         make_failure(errc::not_finite, fmt::format("{} is {} (number {} of {}); try a smaller --dense-lr or "
                                                    "--sparse-lr",
                                                    one.what, kind_of(found.number), found.place, one.count)));
  }
}

}  // namespace troupe
