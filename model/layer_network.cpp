#include "model/layer_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "model/layers.hpp"
#include "model/random.hpp"

namespace troupe::model {

namespace {

bool changes_nothing(const layer_spec& spec) {
  return spec.kind == layer_kind::flatten || (spec.kind == layer_kind::dropout && spec.rate == 0);
}

}  // namespace

result<layer_network> layer_network::make(const std::vector<layer_spec>& layers, const sample_shape& in,
                                          std::uint64_t number) {
  if (layers.empty()) return bad_input("a network of no layers: must be at least one");
  return make_part(layers, in, {0, layers.size()}, number);
}

result<layer_network> layer_network::make_part(const std::vector<layer_spec>& whole, const sample_shape& in,
                                               layer_range part, std::uint64_t number, std::uint32_t slices) {
  TROUPE_ASSERT(part.first < part.end && part.end <= whole.size());
  const std::vector<layer_spec> layers = layers_of_slice(whole, slices);
  const auto cuts = slices > 1 ? cuts_of(layers) : std::vector<layer_cut>(layers.size());
  TROUPE_TRY(made, make_layers(layers, in));
  layer_network network(number);
  const std::size_t last = part.end - 1;
  for (std::size_t i = part.first; i <= last; ++i)
    network.rows_.push_back({i, made[i]->kind(), options_text(layers[i]), made[i]->in(), made[i]->out(),
                             count_of(made[i]->parameters()), made[i]->multiply_adds()});
  for (std::size_t i = part.first; i <= last; ++i) {
    if (i < last && changes_nothing(layers[i])) continue;
    // Not the last ReLU: its way back reads the output, which the loss overwrites.
    // Nor that of a sum over slices.
    const bool has_relu = layers[i].kind == layer_kind::linear && i + 1 < last &&
                          layers[i + 1].kind == layer_kind::relu && cuts[i] != layer_cut::inputs;
    const auto then = has_relu ? kernels::activation::relu : kernels::activation::none;
    if (cuts[i] != layer_cut::none)
      made[i] = make_linear_slice(layers[i], made[i]->in(), cuts[i], then);
    else if (has_relu)
      made[i] = make_linear(layers[i], made[i]->in(), then);
    network.add_step(std::move(made[i]), i, has_relu);
    if (has_relu) ++i;
  }
  return network;
}

void layer_network::add_step(std::unique_ptr<const layer> what, std::size_t number, bool has_relu) {
  const std::size_t parameters = count_of(what->parameters());
  const std::size_t buffers = count_of(what->buffers());
  steps_.push_back({std::move(what), number, has_relu, {parameter_count_, parameters}, {buffer_count_, buffers}});
  parameter_count_ += parameters;
  buffer_count_ += buffers;
}

std::vector<named_parameter> layer_network::numbered(std::vector<named_parameter> (layer::*of_layer)() const,
                                                     parameter_range step::*range) const {
  std::vector<named_parameter> all;
  for (const step& one : steps_)
    for (named_parameter& tensor : ((*one.what).*of_layer)())
      all.push_back(
          {fmt::format("{}.{}", one.number, tensor.name), std::move(tensor.shape), (one.*range).first + tensor.first});
  return all;
}

std::vector<named_parameter> layer_network::parameters() const {
  return numbered(&layer::parameters, &step::parameters);
}

std::vector<named_parameter> layer_network::buffers() const { return numbered(&layer::buffers, &step::buffers); }

std::vector<parameter_range> layer_network::ranges() const {
  std::vector<parameter_range> all;
  for (const step& one : steps_)
    if (one.parameters.count > 0) all.push_back(one.parameters);
  return all;
}

std::size_t layer_network::numbers_per_sample() const {
  std::size_t numbers = 0;
  for (const step& one : steps_) numbers += 2 * one.outputs() + one.what->saved(1);
  return numbers;
}

std::uint64_t layer_network::multiply_adds() const {
  std::uint64_t sum = 0;
  for (const step& one : steps_) sum += one.what->multiply_adds();
  return sum;
}

bool layer_network::uses_key() const {
  return std::ranges::any_of(steps_, [](const step& one) { return one.what->uses_key(); });
}

bool layer_network::synchronizes() const {
  return std::ranges::any_of(steps_, [](const step& one) { return one.what->synchronizes(); });
}

void layer_network::stand_by(rank_means& ranks) const {
  for (const step& one : steps_) one.what->stand_by_forward(ranks);
  for (std::size_t i = steps_.size(); i-- > 0;) steps_[i].what->stand_by_backward(ranks);
}

std::vector<float> layer_network::initial_parameters(std::uint64_t seed) const {
  std::vector<float> parameters(parameter_count_);
  std::vector<float> buffers(buffer_count_);
  for (const step& one : steps_)
    one.what->initialize(random_key(seed, random_stream::dense_weights, one.number, number_),
                         parameters.data() + one.parameters.first, buffers.data() + one.buffers.first);
  return parameters;
}

std::vector<float> layer_network::initial_buffers() const {
  std::vector<float> parameters;
  std::vector<float> buffers(buffer_count_);
  for (const step& one : steps_) {
    if (one.buffers.count == 0) continue;
    parameters.resize(one.parameters.count);
    one.what->initialize(0, parameters.data(), buffers.data() + one.buffers.first);
  }
  return buffers;
}

layer::pass layer_network::pass_of(std::size_t i, kernels::stream& on, const pass_mode& mode, std::size_t size) const {
  return {on, size, mode.training, random_bits(mode.key, steps_[i].number), mode.first_sample, mode.ranks, mode.slices};
}

layer::numbers layer_network::numbers_of(std::size_t i, const tensors& all, const float* input,
                                         const activations& a) const {
  const step& one = steps_[i];
  return {all.parameters + one.parameters.first, one.buffers.count > 0 ? all.buffers + one.buffers.first : nullptr,
          i > 0 ? a.outputs_[i - 1].data() : input, a.outputs_[i].data(), a.saved_[i].data()};
}

float* layer_network::forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                              const float* input, network::activations& kept) const {
  auto& a = static_cast<activations&>(kept);
  a.outputs_.resize(steps_.size());
  a.saved_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    a.outputs_[i].resize(on, size * steps_[i].outputs());
    a.saved_[i].resize(on, steps_[i].what->saved(size));
    steps_[i].what->forward(pass_of(i, on, mode, size), numbers_of(i, numbers, input, a));
  }
  return a.outputs();
}

/// Whether a step before step `i` has parameters, so that it needs the gradient of its output.
bool layer_network::is_trained_below(std::size_t i) const {
  return std::any_of(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(i),
                     [](const step& one) { return one.parameters.count > 0; });
}

void layer_network::backward_inputs(kernels::stream& on, const pass_mode& mode, std::size_t size,
                                    const tensors& numbers, const float* input, network::activations& kept,
                                    const float* grad_outputs, float* grad_input) const {
  auto& a = static_cast<activations&>(kept);
  a.mode_ = mode;
  a.numbers_ = numbers;
  a.grads_.resize(steps_.size() - 1);
  const float* grad = grad_outputs;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (steps_[i].has_relu)
      on.relu_backward(size * steps_[i].outputs(), a.outputs_[i].data(), grad, a.grads_[i].data());
    float* below = nullptr;
    if (i == 0) {
      below = grad_input;
    } else if (grad_input != nullptr || is_trained_below(i)) {
      a.grads_[i - 1].resize(on, size * steps_[i - 1].outputs());
      below = a.grads_[i - 1].data();
    }
    if (below != nullptr || steps_[i].parameters.count > 0)
      steps_[i].what->backward_input(pass_of(i, on, mode, size), numbers_of(i, numbers, input, a), grad, below);
    if (below == nullptr) return;
    grad = below;
  }
}

/// The layers side by side, from the last one on.
void layer_network::backward_parameters(kernels::stream& on, std::size_t size, const float* input,
                                        const network::activations& kept, const float* grad_outputs,
                                        const std::function<float*(parameter_range)>& grad_at,
                                        const std::function<void(parameter_range)>& finished) const {
  const auto& a = static_cast<const activations&>(kept);
  std::vector<std::size_t> trained;
  std::vector<float*> places;
  std::size_t operations = 0;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (steps_[i].parameters.count == 0) continue;
    trained.push_back(i);
    places.push_back(grad_at(steps_[i].parameters));
    operations += size * steps_[i].what->multiply_adds();
  }
  const auto compute = [&](std::size_t part) {
    const std::size_t i = trained[part];
    const float* const grad = i + 1 < steps_.size() ? a.grads_[i].data() : grad_outputs;
    steps_[i].what->backward_parameters(pass_of(i, on, a.mode_, size), numbers_of(i, a.numbers_, input, a), grad,
                                        places[part]);
  };
  const auto tell = [&](std::size_t part) { finished(steps_[trained[part]].parameters); };
  on.side_by_side(trained.size(), operations, std::ref(compute), std::ref(tell));
}

void layer_network::activations::append_addresses(std::vector<const void*>& to) const {
  for (const auto* arrays : {&outputs_, &grads_, &saved_})
    for (const auto& one : *arrays) to.push_back(one.data());
}

}  // namespace troupe::model
