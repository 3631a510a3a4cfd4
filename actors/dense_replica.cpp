#include "actors/dense_replica.hpp"

#include "base/assert.hpp"

namespace troupe::actors {

dense_replica::dense_replica(const model::network& what, model::loss_function loss, kernels::device& where,
                             const options& chosen)
    : trained_parameters(what.ranges(), where, chosen.parameters),
      network_(what),
      loss_(std::move(loss)),
      options_(chosen),
      activations_(what.make_activations()) {
  loss_value_.resize(compute(), 1);
  losses_.resize(compute(), open_max);
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
  copies().download(loss_value_.data(), loss_on_host(batch.step), sizeof(double));
  if (batch.wants_it_on_host) grad_input_.download(copies());
  open_.push_back({batch.step, batch.size, follow(copies())});
}

/// Runs forward, loss, and backward to the input. On a device, captures the calls as a graph or launches it.
void dense_replica::run(const model::loss_targets& targets) {
  const model::pass_mode mode{true, batch_.key, batch_.ranks};
  float* const grad_input = batch_.wants_grad_input ? grad_input_.data() : nullptr;
  const auto calls = [&] {
    float* outputs = network_.forward(compute(), mode, batch_.size, tensors(), batch_.input, *activations_);
    loss_(compute(), batch_.size, targets, outputs, loss_value_.data());
    network_.backward_inputs(compute(), mode, batch_.size, tensors(), batch_.input, *activations_, outputs, grad_input);
  };
  if (is_on_host() || network_.uses_key() || batch_.ranks != nullptr) return calls();
  // The addresses that the pass uses. Once no array grows any more, only a few combinations recur.
  std::vector<const void*> given = {batch_.input, grad_input, targets.classes, targets.values};
  activations_->append_addresses(given);
  std::pair which{batch_.size, std::move(given)};
  if (passes_.size() >= options_.passes_max && !passes_.contains(which)) passes_.clear();
  compute().capture_or_launch(passes_[std::move(which)], calls);
}

dense_replica::batch_loss dense_replica::end_pass() {
  const open_pass one = open_.front();
  open_.pop_front();
  arrive(one.end);
  return {one.step, one.size, *loss_on_host(one.step)};
}

void dense_replica::backward_parameters(bool last, const std::function<void(std::uint32_t)>& full) {
  backward(
      batch_.step, last,
      [this](const gradient_at& grad_at, const finished& done) {
        network_.backward_parameters(compute(), batch_.size, batch_.input, *activations_, activations_->outputs(),
                                     grad_at, done);
      },
      full);
}

std::span<const float> dense_replica::outputs(std::uint64_t step, std::size_t size, const float* input) {
  const std::size_t count = size * network_.out_features();
  const float* there = nullptr;
  {
    const auto scope = timed(timer_, trace::range_name::evaluate);
    there = network_.forward(compute(), {}, size, tensors(), input, *activations_);
    watch().look(compute(), step, there, count, "an output for a test row");
  }
  synchronize();
  return kernels::on_host(compute(), there, count, outputs_);
}

}  // namespace troupe::actors
