#include "actors/dense_replica.hpp"

#include <numeric>

#include "base/assert.hpp"

namespace troupe::actors {

dense_replica::dense_replica(const model::network& what, model::loss_function loss, kernels::device& where,
                             const options& chosen)
    : trained_parameters(what.ranges(), where, chosen.parameters),
      network_(what),
      loss_(std::move(loss)),
      options_(chosen) {
  TROUPE_ASSERT(chosen.micro_batches > 0);
  for (std::size_t i = 0; i < chosen.micro_batches; ++i) activations_.push_back(what.make_activations());
  loss_values_.resize(compute(), chosen.micro_batches);
  losses_.resize(compute(), open_max * chosen.micro_batches);
}

/// The streams, which are destroyed later, may still use this object's arrays.
dense_replica::~dense_replica() {
  try {
    compute().synchronize();
    copies().synchronize();
  } catch (const kernels::device_error&) {  // the device has failed: nothing computes any more
  }
}

void dense_replica::start(std::span<const float> parameters, std::span<const float> buffers) {
  TROUPE_ASSERT(parameters.size() == network_.parameter_count());
  const std::vector<float> initial = network_.initial_buffers();
  TROUPE_ASSERT(buffers.empty() || buffers.size() == initial.size());
  trained_parameters::start(parameters, buffers.empty() ? initial : buffers);
}

/// Enqueues the copies to the host behind the pass.
void dense_replica::begin_pass(const pass& batch) {
  TROUPE_ASSERT(batch.size > 0);
  TROUPE_ASSERT(open_.empty() || (open_.size() < open_max && open_.back().step + 1 == batch.step));
  batch_ = batch;
  if (batch.wants_grad_input) {
    if (!is_on_host()) grad_input_.release();  // servers may still read the previous gradient
    grad_input_.resize(compute(), batch.size * network_.in_features());
  }
  const model::loss_targets targets{classes_.put(copies(), batch.classes), values_.put(copies(), batch.values)};
  for (kernels::stream_timer* one : timers()) one->set_step(batch.step);
  begun_ = copies().record();
  compute().wait(*begun_);
  {
    const auto scope = timed(timer_, trace::range_name::forward_backward);
    run(targets);
    if (batch.wants_grad_input && watches())
      watch().look(compute(), batch.step, grad_input_.data(), grad_input_.size(), options_.grad_input_name);
  }
  passed_ = compute().record();
  copies().wait(*passed_);
  const auto scope = timed(copy_timer_, trace::range_name::copy);
  copies().download(loss_values_.data(), losses_on_host(batch.step), parts() * sizeof(double));
  if (batch.wants_it_on_host) grad_input_.download(copies());
  open_.push_back({batch.step, batch.size, follow(copies())});
}

dense_replica::part dense_replica::part_of(std::size_t number) {
  const model::micro_batch samples = model::micro_batch_of(batch_.size, options_.micro_batches, number);
  return {number, samples, batch_.input + samples.first * network_.in_features(), *activations_[number]};
}

/// Runs forward, loss, and backward to the input of a micro-batch.
void dense_replica::run(const part& which, const model::loss_targets& targets) {
  const auto [first, size] = which.samples;
  const std::size_t width = network_.out_features();
  const model::pass_mode mode{true, batch_.key, batch_.ranks, first};
  const model::loss_targets mine{targets.classes == nullptr ? nullptr : targets.classes + first,
                                 targets.values == nullptr ? nullptr : targets.values + first * width};
  float* const grad_input = batch_.wants_grad_input ? grad_input_.data() + first * network_.in_features() : nullptr;
  float* const outputs = network_.forward(compute(), mode, size, tensors(), which.input, which.kept);
  loss_(compute(), {size, batch_.size}, mine, outputs, loss_values_.data() + which.number);
  network_.backward_inputs(compute(), mode, size, tensors(), which.input, which.kept, outputs, grad_input);
}

/// Runs all micro-batches. On a device, captures the calls as a graph or launches it.
void dense_replica::run(const model::loss_targets& targets) {
  const auto calls = [&] {
    for (std::size_t i = 0; i < parts(); ++i) run(part_of(i), targets);
    if (batch_.ranks == nullptr) return;
    for (std::size_t i = parts(); i < options_.micro_batches; ++i) network_.stand_by(*batch_.ranks);
  };
  if (is_on_host() || network_.uses_key() || batch_.ranks != nullptr) return calls();
  // The addresses that the pass uses. Once no array grows any more, only a few combinations recur.
  std::vector<const void*> given = {batch_.input, batch_.wants_grad_input ? grad_input_.data() : nullptr,
                                    targets.classes, targets.values};
  for (const auto& one : activations_) one->append_addresses(given);
  std::pair which{batch_.size, std::move(given)};
  if (passes_.size() >= options_.passes_max && !passes_.contains(which)) passes_.clear();
  compute().capture_or_launch(passes_[std::move(which)], calls);
}

dense_replica::batch_loss dense_replica::end_pass() {
  const open_pass one = open_.front();
  open_.pop_front();
  arrive(one.end);
  const double* const losses = losses_on_host(one.step);
  const std::size_t count = model::micro_batches_with_samples(one.size, options_.micro_batches);
  return {one.step, one.size, std::accumulate(losses + 1, losses + count, losses[0])};
}

void dense_replica::backward_parameters(bool last, const std::function<void(std::uint32_t)>& full) {
  for (std::size_t i = 0; i < parts(); ++i)
    backward(
        batch_.step, last && i + 1 == parts(),
        [one = part_of(i), this](const gradient_at& grad_at, const finished& done) {
          network_.backward_parameters(compute(), one.samples.size, one.input, one.kept, one.kept.outputs(), grad_at,
                                       done);
        },
        full, i > 0);
}

std::span<const float> dense_replica::outputs(std::uint64_t step, std::size_t size, const float* input) {
  const std::size_t count = size * network_.out_features();
  const float* there = nullptr;
  {
    const auto scope = timed(timer_, trace::range_name::evaluate);
    there = network_.forward(compute(), {}, size, tensors(), input, *activations_.front());
    watch().look(compute(), step, there, count, "an output for a test row");
  }
  synchronize();
  return kernels::on_host(compute(), there, count, outputs_);
}

}  // namespace troupe::actors
