#include "model/mlp.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/layers.hpp"
#include "model/random.hpp"

namespace troupe {

mlp::mlp(std::size_t in, std::span<const std::size_t> hidden, std::size_t out, last_activation last) {
  std::size_t width = in;
  for (std::size_t next : hidden) {
    add(std::make_unique<linear>(width, next));
    add(std::make_unique<relu>(next));
    width = next;
  }
  add(std::make_unique<linear>(width, out));
  if (last == last_activation::relu) add(std::make_unique<relu>(out));
}

void mlp::add(std::unique_ptr<module> what) {
  const std::size_t count = what->parameter_count();
  // The input belongs to the caller: the first layer never writes over it.
  const std::size_t buffer = layers_.empty() ? 0 : layers_.back().buffer + (what->works_in_place() ? 0 : 1);
  layers_.push_back({std::move(what), {parameter_count_, count}, buffer});
  parameter_count_ += count;
}

std::vector<float> mlp::initial_parameters(std::uint64_t seed, std::uint64_t number) const {
  std::vector<float> parameters(parameter_count_);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i].what->initialize(random_key(seed, random_stream::dense_weights, i, number),
                                parameters.data() + layers_[i].parameters.first);
  return parameters;
}

float* mlp::forward(std::size_t batch, const float* parameters, const float* x, activations& a) const {
  a.outputs.resize(layers_.back().buffer + 1);
  for (const layer& l : layers_) {
    std::vector<float>& y = a.outputs[l.buffer];
    y.resize(batch * l.what->out_features());
    l.what->forward(batch, parameters + l.parameters.first, x, y.data());
    x = y.data();
  }
  return a.outputs.back().data();
}

void mlp::backward_inputs(std::size_t batch, const float* parameters, const float* x, activations& a,
                          const float* grad_y, float* grad_x) const {
  a.grads.resize(a.outputs.size());
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const layer& l = layers_[i];
    const float* in = x;
    float* grad_in = grad_x;
    if (i > 0) {
      const std::size_t before = layers_[i - 1].buffer;
      a.grads[before].resize(batch * l.what->in_features());
      in = a.outputs[before].data();
      grad_in = a.grads[before].data();
    }
    if (grad_in == nullptr) return;
    l.what->backward_input(batch, parameters + l.parameters.first, in, a.outputs[l.buffer].data(), grad_y, grad_in);
    grad_y = grad_in;
  }
}

void mlp::backward_parameters(std::size_t batch, const float* x, const activations& a, const float* grad_y,
                              const std::function<float*(parameter_range)>& grad_at,
                              const std::function<void(parameter_range)>& finished) const {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const layer& l = layers_[i];
    if (l.parameters.count == 0) continue;
    const float* in = i > 0 ? a.outputs[layers_[i - 1].buffer].data() : x;
    const float* grad_out = i + 1 < layers_.size() ? a.grads[l.buffer].data() : grad_y;
    l.what->backward_parameters(batch, in, grad_out, grad_at(l.parameters));
    finished(l.parameters);
  }
}

std::vector<parameter_range> mlp::ranges() const {
  std::vector<parameter_range> result;
  for (const layer& l : layers_)
    if (l.parameters.count > 0) result.push_back(l.parameters);
  return result;
}

std::vector<named_parameter> mlp::parameters() const {
  std::vector<named_parameter> result;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    for (named_parameter& one : layers_[i].what->parameters())
      result.push_back(
          {fmt::format("{}.{}", i, one.name), std::move(one.shape), layers_[i].parameters.first + one.first});
  }
  return result;
}

std::vector<parameter_range> plan_buckets(const std::vector<parameter_range>& layers, std::size_t first_bytes,
                                          std::size_t bytes) {
  std::vector<parameter_range> buckets;
  bool open = false;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (open) {
      buckets.back().first = layers[i].first;
      buckets.back().count += layers[i].count;
    } else {
      buckets.push_back(layers[i]);
    }
    const std::size_t limit = buckets.size() == 1 ? first_bytes : bytes;
    open = buckets.back().count * sizeof(float) < limit;
  }
  return buckets;
}

}  // namespace troupe
