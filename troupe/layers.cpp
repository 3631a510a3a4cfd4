#include "troupe/layers.hpp"

#include <fmt/format.h>

#include "kernels/device.hpp"
#include "model/linear.hpp"
#include "troupe/error.hpp"

namespace troupe::nn {

linear::linear(std::size_t in_features, std::size_t out_features) : in_(in_features), out_(out_features) {
  if (in_ == 0 || out_ == 0)
    throw error(error_kind::input, fmt::format("linear({}, {}): both must be at least 1", in_, out_));
}

void linear::initialize(std::uint64_t key, float* parameters, float* /*buffers*/) const {
  model::linear{in_, out_}.initialize(key, parameters);
}

troupe::shape linear::output(const tensor& input) const {
  check_features(*this, input, in_);
  return {input.shape()[0], out_};
}

void linear::forward(const pass& how, const pass_numbers& numbers) const {
  model::linear{in_, out_}.forward(how.on, numbers.input.shape()[0], numbers.parameters,
                                   numbers.input.as<float>().data(), numbers.output);
}

void linear::backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                      float* grad_parameters) const {
  const model::linear layer{in_, out_};
  const std::size_t batch = numbers.input.shape()[0];
  if (grad_input != nullptr) layer.backward_input(how.on, batch, numbers.parameters, grad_output, grad_input);
  if (grad_parameters != nullptr)
    layer.backward_parameters(how.on, batch, numbers.input.as<float>().data(), grad_output, grad_parameters);
}

troupe::shape relu::output(const tensor& input) const {
  if (input.type() != dtype::f32 || input.count() == 0)
    throw error(error_kind::input, fmt::format("relu: takes float32, at least 1 number, not {} of {}",
                                               to_string(input.shape()), to_string(input.type())));
  return input.shape();
}

void relu::forward(const pass& how, const pass_numbers& numbers) const {
  how.on.relu_forward(numbers.input.count(), numbers.input.as<float>().data(), numbers.output);
}

void relu::backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                    float* /*grad_parameters*/) const {
  if (grad_input != nullptr) how.on.relu_backward(numbers.input.count(), numbers.output, grad_output, grad_input);
}

}  // namespace troupe::nn
