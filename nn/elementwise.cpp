#include "nn/elementwise.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

namespace {

const troupe::shape& checked_numbers(const module& of, const tensor_view& input) {
  if (input.type() != dtype::f32 || input.count() == 0)
    refuse(of, fmt::format("takes float32, at least 1 number, not {} of {}", to_string(input.shape()),
                           name_of(input.type())));
  return input.shape();
}

void copy_numbers(kernels::stream& on, std::size_t count, const float* from, float* to) {
  on.copy(from, to, count * sizeof(float));
}

}  // namespace

// -- relu -------------------------------------------------------------------------------

troupe::shape relu::output(const tensor_view& input) const { return checked_numbers(*this, input); }

void relu::forward(const pass& how, const pass_numbers& numbers) const {
  how.stream.relu_forward(numbers.output.size(), numbers.input.as<float>().data(), numbers.output.data());
}

void relu::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  // Input and output are positive at the same indices.
  if (of.input)
    how.stream.relu_backward(of.input.size(), numbers.input.as<float>().data(), of.output.data(), of.input.data());
}

// -- gelu -------------------------------------------------------------------------------

troupe::shape gelu::output(const tensor_view& input) const { return checked_numbers(*this, input); }

void gelu::forward(const pass& how, const pass_numbers& numbers) const {
  how.stream.gelu_forward(numbers.output.size(), numbers.input.as<float>().data(), numbers.output.data());
}

void gelu::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (of.input)
    how.stream.gelu_backward(of.input.size(), numbers.input.as<float>().data(), of.output.data(), of.input.data());
}

// -- dropout ----------------------------------------------------------------------------

const option_fields<dropout_options>& dropout_options::fields() {
  static const auto all = option_fields<dropout_options>().real(
      "rate", &dropout_options::rate, "a number of at least 0 and below 1", [](double x) { return x >= 0 && x < 1; },
      true);
  return all;
}

dropout::dropout(const options& chosen) : layer(checked(chosen)) {}

troupe::shape dropout::output(const tensor_view& input) const { return checked_numbers(*this, input); }

void dropout::apply(const pass& how, const tensor_view& input, const float* x, float* y) const {
  const std::size_t size = input.shape().dimensions() > 0 ? input.shape()[0] : 1;
  if (chosen_.rate == 0 || !how.training) return copy_numbers(how.stream, input.count(), x, y);
  const auto threshold = static_cast<std::uint32_t>(std::floor(chosen_.rate * 0x1p32));
  const auto scale = static_cast<float>(1 / (1 - chosen_.rate));
  how.stream.dropout({how.key, how.first_sample, threshold, scale}, size, input.count() / size, x, y);
}

void dropout::forward(const pass& how, const pass_numbers& numbers) const {
  apply(how, numbers.input, numbers.input.as<float>().data(), numbers.output.data());
}

void dropout::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (of.input) apply(how, numbers.input, of.output.data(), of.input.data());
}

// -- flatten ----------------------------------------------------------------------------

troupe::shape flatten::output(const tensor_view& input) const {
  const troupe::shape sample = sample_of(*this, input);
  return {input.shape()[0], sample.count()};
}

void flatten::forward(const pass& how, const pass_numbers& numbers) const {
  copy_numbers(how.stream, numbers.output.size(), numbers.input.as<float>().data(), numbers.output.data());
}

void flatten::backward(const pass& how, const pass_numbers& /*numbers*/, const gradients& of) const {
  if (of.input) copy_numbers(how.stream, of.input.size(), of.output.data(), of.input.data());
}

}  // namespace troupe::nn
