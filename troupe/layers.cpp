#include "troupe/layers.hpp"

#include <fmt/format.h>

#include "kernels/device.hpp"
#include "model/layers.hpp"
#include "troupe/error.hpp"

namespace troupe::nn {

linear::linear(std::size_t in_features, std::size_t out_features, bool bias)
    : in_(in_features), out_(out_features), has_bias_(bias) {
  if (in_ == 0 || out_ == 0)
    throw error(error_kind::input, fmt::format("linear({}, {}): both must be at least 1", in_, out_));
}

std::vector<parameter> linear::parameters() const {
  std::vector<parameter> all = {{"weight", {out_, in_}}};
  if (has_bias_) all.push_back({"bias", {out_}});
  return all;
}

void linear::initialize(std::uint64_t key, float* parameters, float* /*buffers*/) const {
  model::fill_uniform(key, 0, count_of(this->parameters()), in_, parameters);
}

troupe::shape linear::output(const tensor& input) const {
  check_features(*this, input, in_);
  return {input.shape()[0], out_};
}

void linear::forward(const pass& how, const pass_numbers& numbers) const {
  const float* const bias = has_bias_ ? numbers.parameters + out_ * in_ : nullptr;
  how.on.linear_forward(numbers.input.shape()[0], in_, out_, numbers.input.as<float>().data(), numbers.parameters, bias,
                        kernels::activation::none, numbers.output);
}

void linear::backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                      float* grad_parameters) const {
  const std::size_t batch = numbers.input.shape()[0];
  if (grad_input != nullptr)
    how.on.linear_backward_input(batch, in_, out_, numbers.parameters, grad_output, grad_input);
  if (grad_parameters != nullptr)
    how.on.linear_backward_parameters(batch, in_, out_, numbers.input.as<float>().data(), grad_output, grad_parameters,
                                      has_bias_ ? grad_parameters + out_ * in_ : nullptr);
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
