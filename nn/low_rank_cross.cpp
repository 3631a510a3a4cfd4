#include "nn/low_rank_cross.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

namespace {

constexpr std::size_t cross_layers_max = 64;

// The indices of layer k's parameters.
std::size_t v(std::size_t k) { return 3 * k; }
std::size_t w(std::size_t k) { return 3 * k + 1; }
std::size_t b(std::size_t k) { return 3 * k + 2; }

}  // namespace

const option_fields<low_rank_cross_options>& low_rank_cross_options::fields() {
  static const auto all = option_fields<low_rank_cross_options>()
                              .whole("rank", &low_rank_cross_options::rank, 1, layer_width_max)
                              .whole("layers", &low_rank_cross_options::layers, 1, cross_layers_max);
  return all;
}

low_rank_cross::low_rank_cross(const options& chosen) : layer(checked(chosen)) {
  check_length(options::kind, "features", chosen.features);
}

std::vector<parameter> low_rank_cross::parameters() const {
  const auto [width, rank, layers] = chosen_;
  std::vector<parameter> all;
  for (std::size_t k = 0; k < layers; ++k) {
    all.push_back({fmt::format("v.{}", k), {rank, width}});
    all.push_back({fmt::format("w.{}", k), {width, rank}});
    all.push_back({fmt::format("b.{}", k), {width}});
  }
  return all;
}

void low_rank_cross::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                                const tensor_list<float>& /*buffers*/) const {
  for (std::size_t k = 0; k < chosen_.layers; ++k) {
    const auto fill = [&](std::size_t i, std::size_t fan_in) {
      fill_uniform(key, parameters.tensors()[i].first, parameters[i].size(), fan_in, parameters[i].data());
    };
    fill(v(k), chosen_.features);
    fill(w(k), chosen_.rank);
    std::ranges::fill(parameters[b(k)], 0.0F);
  }
}

troupe::shape low_rank_cross::output(const tensor_view& input) const {
  features_of(*this, input, chosen_.features);
  return input.shape();
}

/// The saved numbers of a layer: the products and their gradients.
struct low_rank_cross::kept_numbers {
  float* x;           // x_k [size, width]; unused in layer 0, whose x is the input
  float* inner;       // V x [size, rank]
  float* outer;       // W V x + b [size, width]
  float* grad_inner;  // their gradients
  float* grad_outer;
};

low_rank_cross::kept_numbers low_rank_cross::kept_of(const pass_numbers& numbers, std::size_t k) const {
  const std::size_t size = numbers.input.shape()[0];
  const std::size_t wide = size * chosen_.features;
  const std::size_t narrow = size * chosen_.rank;
  float* const first = numbers.saved.data() + k * (3 * wide + 2 * narrow);
  return {first, first + 3 * wide, first + wide, first + 3 * wide + narrow, first + 2 * wide};
}

std::size_t low_rank_cross::saved(const tensor_view& input, const kernels::stream& /*on*/) const {
  const auto [width, rank, layers] = chosen_;
  return input.shape()[0] * (layers * (3 * width + 2 * rank) + 2 * width);
}

void low_rank_cross::forward(const pass& how, const pass_numbers& numbers) const {
  const auto [width, rank, layers] = chosen_;
  const std::size_t size = numbers.input.shape()[0];
  const float* const x_0 = numbers.input.as<float>().data();
  const float* x = x_0;
  for (std::size_t k = 0; k < layers; ++k) {
    const auto kept = kept_of(numbers, k);
    float* const next = k + 1 < layers ? kept_of(numbers, k + 1).x : numbers.output.data();
    how.stream.linear_forward(size, width, rank, x, numbers.parameters[v(k)].data(), nullptr, kernels::activation::none,
                              kept.inner);
    how.stream.linear_forward(size, rank, width, kept.inner, numbers.parameters[w(k)].data(),
                              numbers.parameters[b(k)].data(), kernels::activation::none, kept.outer);
    how.stream.multiply_add(size * width, x_0, kept.outer, x, next);
    x = next;
  }
}

/// `grad`: of x_{k+1}. The input's gradient first accumulates the gradients of x_0 as a factor.
void low_rank_cross::backward_input(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  const auto [width, rank, layers] = chosen_;
  const std::size_t size = numbers.input.shape()[0];
  const std::size_t count = size * width;
  const float* const x_0 = numbers.input.as<float>().data();
  float* const grad = kept_of(numbers, layers).x;
  float* const step = grad + count;
  float* const grad_input = of.input.data();
  how.stream.copy(of.output.data(), grad, count * sizeof(float));
  for (std::size_t k = layers; k-- > 0;) {
    const auto kept = kept_of(numbers, k);
    how.stream.multiply_add(count, grad, x_0, nullptr, kept.grad_outer);
    if (of.input) how.stream.multiply_add(count, grad, kept.outer, k + 1 < layers ? grad_input : nullptr, grad_input);
    how.stream.linear_backward_input(size, rank, width, numbers.parameters[w(k)].data(), kept.grad_outer,
                                     kept.grad_inner);
    if (k == 0 && !of.input) return;
    how.stream.linear_backward_input(size, width, rank, numbers.parameters[v(k)].data(), kept.grad_inner, step);
    how.stream.add_columns(size, width, {step, width}, {grad, width});
  }
  how.stream.add_columns(size, width, {grad, width}, {grad_input, width});
}

void low_rank_cross::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (!how.is_second_backward) backward_input(how, numbers, of);
  if (!of.parameters) return;
  const auto [width, rank, layers] = chosen_;
  const std::size_t size = numbers.input.shape()[0];
  for (std::size_t k = 0; k < layers; ++k) {
    const auto kept = kept_of(numbers, k);
    const float* const x = k > 0 ? kept.x : numbers.input.as<float>().data();
    how.stream.linear_backward_parameters(size, width, rank, x, kept.grad_inner, of.parameters[v(k)].data(), nullptr);
    how.stream.linear_backward_parameters(size, rank, width, kept.inner, kept.grad_outer, of.parameters[w(k)].data(),
                                          of.parameters[b(k)].data());
  }
}

std::uint64_t low_rank_cross::multiply_adds(const tensor_view& input) const {
  return std::uint64_t{2} * input.shape()[0] * chosen_.features * chosen_.rank * chosen_.layers;
}

}  // namespace troupe::nn
