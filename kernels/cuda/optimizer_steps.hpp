// One optimizer step on a pack of weights. The only place in this folder with the formulas of optimizer.hpp; its
// operations are those of the processor, in the same order, so that the bits agree.

#pragma once

#include <cstddef>

#include "kernels/cuda/packs.hpp"
#include "kernels/optimizer.hpp"

namespace troupe::kernels::cuda {

/// Adds weight decay. Without this branch, a decay of 0 would turn the gradient of an infinite weight into NaN.
inline __device__ float decayed(const update_constants& c, float grad, float weight) {
  return c.weight_decay == 0.0F ? grad : fmaf(c.weight_decay, weight, grad);
}

template <int kWidth>
__device__ pack<float, kWidth> momentum_step(const update_constants& c, std::size_t at, float* first,
                                             const pack<float, kWidth>& grad) {
  auto velocity = load_pack<kWidth>(first + at);
  pack<float, kWidth> direction;
  unrolled<kWidth>([&](int k) {
    velocity.at[k] = fmaf(c.momentum, velocity.at[k], grad.at[k]);
    direction.at[k] = c.nesterov ? fmaf(c.momentum, velocity.at[k], grad.at[k]) : velocity.at[k];
  });
  store_pack(velocity, first + at);
  return direction;
}

template <int kWidth>
__device__ pack<float, kWidth> adagrad_step(const update_constants& c, std::size_t at, float* first,
                                            const pack<float, kWidth>& grad) {
  auto squares = load_pack<kWidth>(first + at);
  pack<float, kWidth> direction;
  unrolled<kWidth>([&](int k) {
    squares.at[k] = fmaf(grad.at[k], grad.at[k], squares.at[k]);
    direction.at[k] = grad.at[k] / (sqrtf(squares.at[k]) + c.eps);
  });
  store_pack(squares, first + at);
  return direction;
}

template <int kWidth>
__device__ pack<float, kWidth> adam_step(const update_constants& c, std::size_t at, optimizer_state_view state,
                                         const pack<float, kWidth>& grad) {
  auto mean = load_pack<kWidth>(state.first + at);
  auto square = load_pack<kWidth>(state.second + at);
  pack<float, kWidth> direction;
  unrolled<kWidth>([&](int k) {
    const float g = grad.at[k];
    mean.at[k] = fmaf(c.beta1, mean.at[k], c.one_minus_beta1 * g);
    square.at[k] = fmaf(c.beta2, square.at[k], c.one_minus_beta2 * (g * g));
    direction.at[k] = mean.at[k] / (sqrtf(square.at[k]) / c.bias_correction2_sqrt + c.eps);
  });
  store_pack(mean, state.first + at);
  store_pack(square, state.second + at);
  return direction;
}

/// Updates weights at .. at + kWidth and their state with `grad`. Requires: not rowwise_adagrad.
template <class Number, int kWidth>
__device__ void optimizer_step(const update_constants& c, std::size_t at, Number* weights, optimizer_state_view state,
                               pack<float, kWidth> grad) {
  auto weight = load_pack<kWidth>(weights + at);
  unrolled<kWidth>([&](int k) { grad.at[k] = decayed(c, grad.at[k], to_float(weight.at[k])); });
  if (c.kind == optimizer_kind::adagrad)
    grad = adagrad_step(c, at, state.first, grad);
  else if (c.kind == optimizer_kind::adam)
    grad = adam_step(c, at, state, grad);
  else if (c.momentum != 0.0F)
    grad = momentum_step(c, at, state.first, grad);
  unrolled<kWidth>([&](int k) { store_float(fmaf(-c.lr, grad.at[k], to_float(weight.at[k])), weight.at[k]); });
  store_pack(weight, weights + at);
}

}  // namespace troupe::kernels::cuda
