#include "actors/trainer/dense_replica.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/assert.hpp"
#include "nn/samples.hpp"

namespace troupe::actors {

namespace {

constexpr const char* evaluated_name = "an output for a test row";

trained_parameters::options with_names(trained_parameters::options chosen, const nn::module& of) {
  chosen.names = nn::placed(of.parameters());
  return chosen;
}

}  // namespace

dense_replica::dense_replica(model::network what, model::loss_function loss, kernels::device& where,
                             const options& chosen)
    : trained_parameters(what.module->ranges(), where, with_names(chosen.parameters, *what.module)),
      network_(std::move(what)),
      in_features_(network_.in_features()),
      out_features_(network_.out_features()),
      multiply_adds_(network_.multiply_adds()),
      parameters_(nn::placed(network_.module->parameters())),
      statistics_(nn::placed(network_.module->buffers())),
      loss_(std::move(loss)),
      options_(chosen) {
  TROUPE_ASSERT(chosen.micro_batches > 0);
  for (std::size_t i = 0; i < chosen.micro_batches; ++i) activations_.push_back(std::make_shared<activations>());
  loss_values_.resize(compute(), chosen.micro_batches);
  losses_.resize(compute(), open_max * chosen.micro_batches);
}

/// Waits: the streams, which are destroyed later, may still use this object's arrays.
dense_replica::~dense_replica() {
  try {
    compute().synchronize();
    copies().synchronize();
  } catch (const kernels::device_error&) {  // the device has failed: nothing computes any more
  }
}

void dense_replica::start(std::span<const float> parameters, std::span<const float> buffers) {
  TROUPE_ASSERT(parameters.size() == nn::count_of(parameters_));
  const std::vector<float> initial = nn::initial_numbers(*network_.module, 0).buffers;
  TROUPE_ASSERT(buffers.empty() || buffers.size() == initial.size());
  trained_parameters::start(parameters, buffers.empty() ? initial : buffers);
}

/// Enqueues the copies to the host after the pass.
void dense_replica::begin_pass(const pass& batch) {
  TROUPE_ASSERT(batch.size > 0);
  TROUPE_ASSERT(open_.empty() || (open_.size() < open_max && open_.back().step + 1 == batch.step));
  batch_ = batch;
  if (batch.wants_grad_input) {
    if (!is_on_host()) grad_input_.release();  // servers may still read the previous gradient
    grad_input_.resize(compute(), batch.size * in_features_);
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
  open_.push_back({batch.step, batch.size, follow(copies()), nullptr});
  if (batch.is_waited_for) open_.back().over = copies().record();
}

dense_replica::part dense_replica::part_of(std::size_t number) {
  const model::micro_batch samples = model::micro_batch_of(batch_.size, options_.micro_batches, number);
  return {number, samples, batch_.input + samples.first * in_features_, activations_[number], batch_.size, batch_.key};
}

/// Runs forward, loss, and backward to the input of a micro-batch.
void dense_replica::run(const part& which, const model::loss_targets& targets) {
  const std::size_t first = which.samples.first;
  const model::loss_targets mine{targets.classes == nullptr ? nullptr : targets.classes + first,
                                 targets.values == nullptr ? nullptr : targets.values + first * out_features_};
  forward(which);
  float* const outputs = which.kept->outputs.data();
  loss_(compute(), {which.samples.size, which.batch_size}, mine, outputs, loss_values_.data() + which.number);
  backward_inputs(which, outputs, grad_input_of(which));
}

nn::pass dense_replica::pass_of(const part& which, bool training) const {
  return {.stream = compute(),
          .training = training,
          .key = which.key,
          .first_sample = which.samples.first,
          .ranks = training ? batch_.ranks : nullptr,
          .slices = options_.slices};
}

/// Grows the activations as needed.
const nn::pass_numbers& dense_replica::numbers_of(const part& which) const {
  activations& kept = *which.kept;
  nn::pass_numbers& numbers = kept.numbers;
  const std::size_t size = which.samples.size;
  const troupe::shape& in = numbers.input.shape();
  if (in.empty() || in[0] != size)
    numbers.input = {nn::batch_of(size, network_.in), which.input};
  else if (numbers.input.data() != which.input)
    numbers.input = {in, which.input};
  if (numbers.output.shape().empty() || numbers.output.shape()[0] != size) {
    kept.saved.resize(compute(), network_.module->saved(numbers.input, compute()));
    kept.outputs.resize(compute(), size * out_features_);
    numbers.output = {kept.outputs.data(), {size, out_features_}};
    numbers.saved = {kept.saved.data(), kept.saved.size()};
  }
  numbers.parameters = {which.weights ? which.weights.get() : weights_data(), parameters_};
  numbers.buffers = {buffers_data(), statistics_};
  return numbers;
}

void dense_replica::forward(const part& which, bool training) {
  network_.module->forward(pass_of(which, training), numbers_of(which));
}

void dense_replica::backward_inputs(const part& which, const float* grad_outputs, float* grad_input) {
  const nn::pass_numbers& numbers = numbers_of(which);
  nn::gradients of{.output = numbers.output.of(grad_outputs)};
  if (grad_input != nullptr) of.input = {grad_input, numbers.input.shape()};
  network_.module->backward(pass_of(which, true), numbers, of);
}

void dense_replica::join_idle(nn::rank_means& ranks) const {
  const nn::pass how{.stream = compute(), .training = true, .ranks = &ranks};
  const nn::pass_numbers none{.input = nn::batch_of(0, network_.in)};
  network_.module->forward(how, none);
  network_.module->backward(how, none, {});
}

/// Runs all micro-batches. On a device, captures the calls as a graph or launches it, unless the whole step is
/// captured.
void dense_replica::run(const model::loss_targets& targets) {
  const auto calls = [&] {
    for (std::size_t i = 0; i < parts(); ++i) run(part_of(i), targets);
    if (batch_.ranks == nullptr) return;
    for (std::size_t i = parts(); i < options_.micro_batches; ++i) join_idle(*batch_.ranks);
  };
  const kernels::step_graphs* const steps = compute().device().graphs();
  const bool is_captured = steps != nullptr && steps->are_captured();
  if (is_on_host() || is_captured || network_.module->uses_key() || batch_.ranks != nullptr) return calls();
  // The addresses that the pass uses. Once arrays stop growing, only a few combinations recur.
  std::vector<const void*> given = {batch_.input, batch_.wants_grad_input ? grad_input_.data() : nullptr,
                                    targets.classes, targets.values};
  for (const auto& one : activations_) given.insert(given.end(), {one->saved.data(), one->outputs.data()});
  std::pair which{batch_.size, std::move(given)};
  if (passes_.size() >= options_.passes_max && !passes_.contains(which)) passes_.clear();
  compute().capture_or_launch(passes_[std::move(which)], calls);
}

dense_replica::batch_loss dense_replica::end_pass() {
  const open_pass one = std::move(open_.front());
  open_.pop_front();
  arrive(one.end);
  const double* const losses = losses_on_host(one.step);
  const std::size_t count = model::micro_batches_with_samples(one.size, options_.micro_batches);
  return {one.step, one.size, std::accumulate(losses + 1, losses + count, losses[0])};
}

void dense_replica::backward_parameters(bool last, const std::function<void(std::uint32_t)>& full) {
  for (std::size_t i = 0; i < parts(); ++i) {
    const part one = part_of(i);
    backward_parameters(one, one.kept->outputs.data(), last && i + 1 == parts(), full);
  }
}

void dense_replica::backward_parameters(const part& which, const float* grad_outputs, bool last,
                                        const std::function<void(std::uint32_t)>& full) {
  backward(
      batch_.step, last,
      [&](nn::gradient_places& to) {
        nn::pass how = pass_of(which, true);
        how.is_second_backward = true;
        const nn::pass_numbers& numbers = numbers_of(which);
        network_.module->backward_parameters(how, numbers, numbers.output.of(grad_outputs), to);
      },
      full, which.number > 0);
}

// -- the batch in parts ---------------------------------------------------------

void dense_replica::begin_parts(const pass& batch) {
  TROUPE_ASSERT(is_on_host() && batch.size > 0 && open_.empty());
  batch_ = batch;
  if (batch.wants_grad_input) grad_input_.resize(compute(), batch.size * in_features_);
}

/// Activations with further references are still read by message receivers, or wait for their backward pass.
std::shared_ptr<dense_replica::activations> dense_replica::free_activations() {
  const auto free = std::ranges::find_if(activations_, [](const auto& one) { return one.use_count() == 1; });
  if (free == activations_.end()) return activations_.emplace_back(std::make_shared<activations>());
  std::atomic_thread_fence(std::memory_order_acquire);  // after the last reader's reads
  return *free;
}

dense_replica::part dense_replica::forward(const pass& batch, std::size_t number, const float* input,
                                           std::shared_ptr<const float> weights) {
  part made{number,
            model::micro_batch_of(batch.size, options_.micro_batches, number),
            input,
            free_activations(),
            batch.size,
            batch.key,
            std::move(weights)};
  forward(made);
  return made;
}

double dense_replica::loss(const part& which, const model::loss_targets& targets) {
  double* const to = loss_values_.data() + which.number;
  loss_(compute(), {which.samples.size, which.batch_size}, targets, which.kept->outputs.data(), to);
  return *to;
}

void dense_replica::end_parts() {
  if (batch_.wants_grad_input && watches())
    watch().look(compute(), batch_.step, grad_input_.data(), grad_input_.size(), options_.grad_input_name);
  passed_ = compute().record();
  synchronize();
}

dense_replica::part dense_replica::evaluate(std::uint64_t step, std::size_t size, const float* input, bool are_last) {
  part made{0, {0, size}, input, free_activations(), size};
  forward(made, false);
  if (are_last) watch().look(compute(), step, made.kept->outputs.data(), size * out_features_, evaluated_name);
  synchronize();
  return made;
}

std::span<const float> dense_replica::outputs(std::uint64_t step, std::size_t size, const float* input) {
  const std::size_t count = size * out_features_;
  const part all{0, {0, size}, input, activations_.front(), size};
  {
    const auto scope = timed(timer_, trace::range_name::evaluate);
    forward(all, false);
    watch().look(compute(), step, all.kept->outputs.data(), count, evaluated_name);
  }
  synchronize();
  return kernels::on_host(compute(), all.kept->outputs.data(), count, outputs_);
}

}  // namespace troupe::actors
