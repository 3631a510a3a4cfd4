#include "model/mlp.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/random.hpp"

namespace troupe::model {

namespace {

/// Returns the index of linear layer `i` in a torch.nn.Sequential, which counts the ReLUs too.
constexpr std::size_t sequential_number(std::size_t i) { return 2 * i; }

}  // namespace

mlp::mlp(std::size_t in, std::span<const std::size_t> hidden, std::size_t out, kernels::activation last) {
  const auto add = [this](const linear& one) {
    layers_.push_back({one, {parameter_count_, one.parameter_count()}});
    parameter_count_ += one.parameter_count();
  };
  std::size_t width = in;
  for (const std::size_t next : hidden) add({std::exchange(width, next), next, kernels::activation::relu});
  add({width, out, last});
}

std::size_t mlp::numbers_per_sample() const {
  std::size_t numbers = 0;
  for (const layer& l : layers_) numbers += l.what.out;
  return numbers;
}

std::uint64_t mlp::multiply_adds() const {
  std::uint64_t all = 0;
  for (const layer& l : layers_) all += std::uint64_t{l.what.in} * l.what.out;
  return all;
}

std::vector<float> mlp::initial_parameters(std::uint64_t seed, std::uint64_t number) const {
  std::vector<float> parameters(parameter_count_);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i].what.initialize(random_key(seed, random_stream::dense_weights, sequential_number(i), number),
                               parameters.data() + layers_[i].parameters.first);
  return parameters;
}

float* mlp::forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, activations& a,
                    bool training) const {
  a.outputs.resize(layers_.size());
  a.saved.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto& [what, range] = layers_[i];
    a.outputs[i].resize(on, batch * what.out);
    const bool masks = training && i + 1 < layers_.size();  // for the layer above
    what.forward(on, batch, parameters + range.first, x, a.outputs[i].data(), &a.saved[i], masks);
    x = a.outputs[i].data();
  }
  return a.outputs.back().data();
}

void mlp::backward_inputs(kernels::stream& on, std::size_t batch, const float* parameters, activations& a,
                          const float* grad_y, float* grad_x) const {
  a.grads.resize(layers_.size());
  bool is_masked = false;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const auto& [what, range] = layers_[i];
    if (what.then != kernels::activation::none && !is_masked) {
      a.grads[i].resize(on, batch * what.out);
      what.backward_activation(on, batch, a.outputs[i].data(), grad_y, a.grads[i].data());
      grad_y = a.grads[i].data();
    }
    if (i > 0) a.grads[i - 1].resize(on, batch * what.in);
    float* const grad_in = i > 0 ? a.grads[i - 1].data() : grad_x;
    const saved_tensors* const below = i > 0 ? &a.saved[i - 1] : nullptr;
    is_masked = what.backward_input(on, batch, parameters + range.first, grad_y, grad_in, &a.saved[i], below);
    grad_y = grad_in;
  }
}

/// The layers side by side, from the last one on.
void mlp::backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const activations& a,
                              const float* grad_y, const std::function<float*(parameter_range)>& grad_at,
                              const std::function<void(parameter_range)>& finished) const {
  std::vector<float*> places;
  for (std::size_t i = layers_.size(); i-- > 0;) places.push_back(grad_at(layers_[i].parameters));
  const auto at = [this](std::size_t part) { return layers_.size() - 1 - part; };
  const auto compute = [&](std::size_t part) {
    const std::size_t i = at(part);
    const linear& what = layers_[i].what;
    const float* const in = i > 0 ? a.outputs[i - 1].data() : x;
    const float* const grad = what.then == kernels::activation::none ? grad_y : a.grads[i].data();
    what.backward_parameters(on, batch, in, grad, places[part], &a.saved[i]);
  };
  const auto tell = [&](std::size_t part) { finished(layers_[at(part)].parameters); };
  on.side_by_side(layers_.size(), batch * parameter_count_, std::ref(compute), std::ref(tell));
}

void mlp::activations::append_addresses(std::vector<const void*>& to) const {
  for (const auto* arrays : {&outputs, &grads})
    for (const auto& one : *arrays) to.push_back(one.data());
  for (const saved_tensors& one : saved) one.append_addresses(to);
}

std::vector<parameter_range> mlp::ranges() const {
  std::vector<parameter_range> result;
  for (const layer& l : layers_) result.push_back(l.parameters);
  return result;
}

std::vector<named_parameter> mlp::parameters() const {
  std::vector<named_parameter> result;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    for (named_parameter& one : layers_[i].what.parameters())
      result.push_back({fmt::format("{}.{}", sequential_number(i), one.name), std::move(one.shape),
                        layers_[i].parameters.first + one.first});
  return result;
}

}  // namespace troupe::model
