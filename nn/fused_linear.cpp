#include "nn/fused_linear.hpp"

namespace troupe::nn {

fused_linear fused_linear::of(const kernels::stream& on, std::size_t batch, std::size_t in, std::size_t out,
                              bool has_bias, bool has_relu) {
  return {.in = in,
          .out = out,
          .has_bias = has_bias,
          .has_relu = has_relu,
          .batch = batch,
          .rounds = on.multiplies_in_bf16(in, out),
          .masks = has_relu && !on.device().is_host()};
}

/// A factor that is rounded at `first` in `saved`, if it is.
kernels::product_factor fused_linear::kept(const float* numbers, float* saved, std::size_t first) const {
  return {numbers, rounds ? reinterpret_cast<std::uint16_t*>(saved + first) : nullptr};
}

std::byte* fused_linear::mask_in(float* saved) const {
  return masks ? reinterpret_cast<std::byte*>(saved + x_floats() + weight_floats() + grad_floats()) : nullptr;
}

bool fused_linear::forward(const pass& how, const pass_numbers& numbers) const {
  float* const saved = numbers.saved.data();
  const auto x = kept(numbers.input.as<float>().data(), saved, 0);
  const auto weight = kept(numbers.parameters[0].data(), saved, x_floats());
  if (rounds) {
    how.stream.round_to_bf16(batch * in, x.numbers, const_cast<std::uint16_t*>(x.in_bf16));
    how.stream.round_to_bf16(out * in, weight.numbers, const_cast<std::uint16_t*>(weight.in_bf16));
  }
  return how.stream.linear_forward(batch, in, out, x, weight, has_bias ? numbers.parameters[1].data() : nullptr,
                                   has_relu ? kernels::activation::relu : kernels::activation::none,
                                   numbers.output.data(), how.training ? mask_in(saved) : nullptr);
}

bool fused_linear::backward_input(const pass& how, const pass_numbers& numbers, const gradients& of,
                                  const std::byte* mask) const {
  float* const saved = numbers.saved.data();
  const auto grad = kept(of.output.data(), saved, x_floats() + weight_floats());
  if (rounds) how.stream.round_to_bf16(batch * out, grad.numbers, const_cast<std::uint16_t*>(grad.in_bf16));
  if (!of.input) return false;
  const auto weight = kept(numbers.parameters[0].data(), saved, x_floats());
  return how.stream.linear_backward_input(batch, in, out, weight, grad, of.input.data(), mask);
}

void fused_linear::backward_parameters(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  float* const saved = numbers.saved.data();
  const auto x = kept(numbers.input.as<float>().data(), saved, 0);
  const auto grad = kept(of.output.data(), saved, x_floats() + weight_floats());
  how.stream.linear_backward_parameters(batch, in, out, x, grad, of.parameters[0].data(),
                                        has_bias ? of.parameters[1].data() : nullptr);
}

}  // namespace troupe::nn
