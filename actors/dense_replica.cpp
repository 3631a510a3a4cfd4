#include "actors/dense_replica.hpp"

#include <algorithm>

#include "actors/device_tensor.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

dense_replica::dense_replica(const model::network& what, model::loss_function loss, kernels::device& where,
                             const options& chosen)
    : network_(what),
      loss_(std::move(loss)),
      options_(chosen),
      activations_(what.make_activations()),
      copies_(where.make_stream()),
      compute_(where.make_stream(chosen.precision)) {
  constexpr std::size_t first_bucket_bytes = std::size_t{1} << 20;  // small, so that the group starts early
  buckets_.emplace(*compute_, model::plan_buckets(what.ranges(), std::min(options_.bucket_bytes, first_bucket_bytes),
                                                  options_.bucket_bytes));
  watch_ = non_finite_watch(*compute_, 2 * (buckets_->size() + 1));  // searches of a step and the step before
  scalar_.resize(*compute_, 1);
}

// -- numbers ------------------------------------------------------------------

void dense_replica::start(std::span<const float> parameters) {
  TROUPE_ASSERT(parameters.size() == network_.parameter_count());
  kernels::assign(*compute_, parameters, weights_);
  if (const auto buffers = network_.initial_buffers(); !buffers.empty())
    kernels::assign<float>(*compute_, buffers, statistics_);
  const int buffers = model::state_buffers(options_.optimizer);
  const auto fill = [&](kernels::device_array<float>& state, float value) {
    state.resize(*compute_, parameters.size());
    compute_->fill(parameters.size(), value, state.data());
  };
  if (buffers >= 1) fill(first_state_, model::initial_state(options_.optimizer));
  if (buffers >= 2) fill(second_state_, 0.0F);
}

std::vector<kernels::device_array<float>*> dense_replica::parts() {
  std::vector<kernels::device_array<float>*> all = {&weights_};
  for (auto* one : {&first_state_, &second_state_, &statistics_})
    if (one->size() > 0) all.push_back(one);
  return all;
}

std::vector<msg::tensor> dense_replica::state() {
  std::vector<msg::tensor> all;
  for (const auto* numbers : parts()) all.push_back(copy_of(*numbers));
  return all;
}

bool dense_replica::restore(const std::vector<msg::tensor>& state) {
  const auto to = parts();
  if (state.size() != to.size()) return false;
  for (std::size_t i = 0; i < to.size(); ++i)
    if (state[i].as<float>().size() != to[i]->size()) return false;
  for (std::size_t i = 0; i < to.size(); ++i) kernels::assign(*compute_, state[i].as<float>(), *to[i]);
  return true;
}

msg::tensor dense_replica::copy_of(const kernels::device_array<float>& numbers) {
  synchronize();
  std::vector<float> copy;
  const auto here = kernels::on_host<float>(*compute_, numbers.data(), numbers.size(), copy);
  if (copy.empty()) copy.assign(here.begin(), here.end());
  return msg::tensor::own(numbers.size(), 1, std::move(copy));
}

// -- a step -------------------------------------------------------------------

void dense_replica::open(std::uint64_t update) {
  constants_ = model::constants_at(options_.optimizer, update);
  buckets_->open();
}

/// Enqueues the copies to the host behind the pass.
void dense_replica::begin_pass(const pass& batch) {
  TROUPE_ASSERT(batch.size > 0);
  batch_ = batch;
  if (batch.wants_grad_input) {
    if (!is_on_host()) grad_input_.release();  // servers may still read the previous gradient
    grad_input_.resize(*compute_, batch.size * network_.in_features());
  }
  const model::loss_targets targets{classes_.put(*copies_, batch.classes), values_.put(*copies_, batch.values)};
  compute_->wait(*copies_->record());
  run(targets);
  if (batch.wants_grad_input && options_.watches)
    watch_.look(*compute_, batch.step, grad_input_.data(), grad_input_.size(), options_.grad_input_name);
  passed_ = compute_->record();
  copies_->wait(*passed_);
  scalar_.download(*copies_);
  watch_.fetch(*copies_);
  if (batch.wants_it_on_host) grad_input_.download(*copies_);
}

/// Runs forward, loss, and backward to the input. On a device, captures the calls as a graph or launches it.
void dense_replica::run(const model::loss_targets& targets) {
  const model::pass_mode mode{true, batch_.key};
  float* const grad_input = batch_.wants_grad_input ? grad_input_.data() : nullptr;
  const auto calls = [&] {
    float* outputs = network_.forward(*compute_, mode, batch_.size, tensors(), batch_.input, *activations_);
    loss_(*compute_, batch_.size, targets, outputs, scalar_.data());
    network_.backward_inputs(*compute_, mode, batch_.size, tensors(), batch_.input, *activations_, outputs, grad_input);
  };
  if (is_on_host() || network_.uses_key()) return calls();
  // The addresses that the pass uses. Once no array grows any more, only a few combinations recur.
  std::vector<const void*> given = {batch_.input, grad_input, targets.classes, targets.values};
  activations_->append_addresses(given);
  std::pair which{batch_.size, std::move(given)};
  if (passes_.size() >= options_.passes_max && !passes_.contains(which)) passes_.clear();
  compute_->capture_or_launch(passes_[std::move(which)], calls);
}

double dense_replica::end_pass() {
  forget_means();
  return *scalar_.host();
}

void dense_replica::backward_parameters(bool last, const std::function<void(std::uint32_t)>& full) {
  buckets_->begin_batch();
  network_.backward_parameters(
      *compute_, batch_.size, batch_.input, *activations_, activations_->outputs(),
      [this](model::parameter_range range) { return buckets_->gradient_at(range); },
      [&](model::parameter_range range) {
        const auto bucket = buckets_->finished(range, last);
        if (!bucket) return;
        if (options_.watches)
          watch_.look(*compute_, batch_.step, buckets_->numbers(*bucket), buckets_->range(*bucket).count,
                      "a dense gradient");
        if (!is_on_host()) return buckets_->mark(*bucket);
        watch_.fetch(*compute_);
        full(*bucket);
      });
}

void dense_replica::take(std::uint32_t bucket, const msg::tensor& mean) {
  buckets_->settle(bucket);
  const model::parameter_range range = buckets_->range(bucket);
  TROUPE_ASSERT(mean.type == msg::dtype::f32 && mean.rows == range.count && mean.consistent());
  const float* grad = mean.as<float>().data();
  if (const device_block* where = block_of(mean.bytes)) {
    compute_->wait(where->written());
    means_.push_back(mean.bytes);
  }
  if (!options_.applies_whole) return update(range, grad);
  mean_.resize(*compute_, weights_.size());
  compute_->copy(grad, mean_.data() + range.first, range.count * sizeof(float));
}

void dense_replica::update(model::parameter_range range, const float* grad) {
  const auto part = [&range](const kernels::device_array<float>& state) {
    return state.size() == 0 ? nullptr : state.data() + range.first;
  };
  compute_->update_dense(constants_, range.count, part(weights_), {part(first_state_), part(second_state_)}, grad);
}

double dense_replica::mean_squared_norm() {
  compute_->squared_norm(mean_.size(), mean_.data(), scalar_.data());
  scalar_.download(*compute_);
  synchronize();
  return *scalar_.host();
}

void dense_replica::apply(float factor) {
  if (factor != 1) compute_->multiply(mean_.size(), factor, mean_.data());
  update({0, weights_.size()}, mean_.data());
}

// -- other --------------------------------------------------------------------

std::span<const float> dense_replica::outputs(std::uint64_t step, std::size_t size, const float* input) {
  const float* there = network_.forward(*compute_, {}, size, tensors(), input, *activations_);
  const std::size_t count = size * network_.out_features();
  watch_.look(*compute_, step, there, count, "an output for a test row");
  synchronize();
  return kernels::on_host(*compute_, there, count, outputs_);
}

void dense_replica::look_at_weights(std::uint64_t step) {
  watch_.look(*compute_, step, weights_.data(), weights_.size(), "a dense weight");
  synchronize();
}

void dense_replica::synchronize() {
  watch_.fetch(*compute_);
  compute_->synchronize();
  forget_means();
}

/// Requires: the host has waited for the device to use the means.
void dense_replica::forget_means() {
  for (const msg::blob& mean : means_)
    if (block_of(mean)->is_lost()) throw kernels::device_error("an allreduce on CUDA devices was given up");
  means_.clear();
}

}  // namespace troupe::actors
