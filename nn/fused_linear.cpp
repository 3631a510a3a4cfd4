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

/// Returns a factor, with its rounded copy at `first` in `saved`, if there is one.
kernels::product_factor fused_linear::kept(const float* factor, float* saved, std::size_t first) const {
  return {factor, rounds ? reinterpret_cast<std::uint16_t*>(saved + first) : nullptr};
}

std::byte* fused_linear::mask_in(float* saved) const {
  return masks ? reinterpret_cast<std::byte*>(saved + x_floats() + weight_floats() + grad_floats()) : nullptr;
}

bool fused_linear::forward(const pass& how, const numbers& of, float* y) const {
  const auto x = kept(of.x, of.saved, 0);
  const auto weight = kept(of.weight, of.saved, x_floats());
  if (rounds) {
    how.stream.round_to_bf16(batch * in, x.numbers, const_cast<std::uint16_t*>(x.in_bf16));
    how.stream.round_to_bf16(out * in, weight.numbers, const_cast<std::uint16_t*>(weight.in_bf16));
  }
  return how.stream.linear_forward(batch, in, out, x, weight, has_bias ? of.weight + out * in : nullptr,
                                   has_relu ? kernels::activation::relu : kernels::activation::none, y,
                                   how.training ? mask_in(of.saved) : nullptr);
}

bool fused_linear::backward_input(const pass& how, const numbers& of, const float* grad_y, float* grad_x,
                                  const std::byte* mask) const {
  const auto grad = kept(grad_y, of.saved, x_floats() + weight_floats());
  if (rounds) how.stream.round_to_bf16(batch * out, grad.numbers, const_cast<std::uint16_t*>(grad.in_bf16));
  if (grad_x == nullptr) return false;
  return how.stream.linear_backward_input(batch, in, out, kept(of.weight, of.saved, x_floats()), grad, grad_x, mask);
}

void fused_linear::backward_parameters(const pass& how, const numbers& of, const float* grad_y,
                                       float* grad_weight) const {
  how.stream.linear_backward_parameters(batch, in, out, kept(of.x, of.saved, 0),
                                        kept(grad_y, of.saved, x_floats() + weight_floats()), grad_weight,
                                        has_bias ? grad_weight + out * in : nullptr);
}

}  // namespace troupe::nn
