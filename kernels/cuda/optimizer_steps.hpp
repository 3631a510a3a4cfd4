// One optimizer step on a pack of weights. The only file in this folder with the formulas of optimizer.hpp; its
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

/// A pack of weights and their optimizer state, in registers. Unused state is 0.
template <class Number, int Width>
struct weight_pack {
  pack<Number, Width> weight;
  pack<float, Width> first = {};
  pack<float, Width> second = {};
};

/// Whether an optimizer other than rowwise_adagrad uses the first or the second state number of each weight.
inline __device__ bool has_first(const update_constants& c) {
  return c.kind == optimizer_kind::adagrad || c.kind == optimizer_kind::adam ||
         (c.kind == optimizer_kind::sgd && c.momentum != 0.0F);
}
inline __device__ bool has_second(const update_constants& c) { return c.kind == optimizer_kind::adam; }

template <int Width, class Number>
__device__ weight_pack<Number, Width> load_weights(const update_constants& c, std::size_t at, const Number* weights,
                                                   optimizer_state_view state) {
  weight_pack<Number, Width> x;
  x.weight = load_pack<Width>(weights + at);
  if (has_first(c)) x.first = load_pack<Width>(static_cast<const float*>(state.first) + at);
  if (has_second(c)) x.second = load_pack<Width>(static_cast<const float*>(state.second) + at);
  return x;
}

template <class Number, int Width>
__device__ void store_weights(const update_constants& c, const weight_pack<Number, Width>& x, std::size_t at,
                              Number* weights, optimizer_state_view state) {
  if (has_first(c)) store_pack(x.first, state.first + at);
  if (has_second(c)) store_pack(x.second, state.second + at);
  store_pack(x.weight, weights + at);
}

template <int Width>
__device__ pack<float, Width> momentum_step(const update_constants& c, pack<float, Width>& velocity,
                                            const pack<float, Width>& grad) {
  pack<float, Width> direction;
  unrolled<Width>([&](int k) {
    velocity.at[k] = fmaf(c.momentum, velocity.at[k], grad.at[k]);
    direction.at[k] = c.nesterov ? fmaf(c.momentum, velocity.at[k], grad.at[k]) : velocity.at[k];
  });
  return direction;
}

template <int Width>
__device__ pack<float, Width> adagrad_step(const update_constants& c, pack<float, Width>& squares,
                                           const pack<float, Width>& grad) {
  pack<float, Width> direction;
  unrolled<Width>([&](int k) {
    squares.at[k] = fmaf(grad.at[k], grad.at[k], squares.at[k]);
    direction.at[k] = grad.at[k] / (sqrtf(squares.at[k]) + c.eps);
  });
  return direction;
}

template <int Width>
__device__ pack<float, Width> adam_step(const update_constants& c, pack<float, Width>& mean, pack<float, Width>& square,
                                        const pack<float, Width>& grad) {
  pack<float, Width> direction;
  unrolled<Width>([&](int k) {
    const float g = grad.at[k];
    mean.at[k] = fmaf(c.beta1, mean.at[k], c.one_minus_beta1 * g);
    square.at[k] = fmaf(c.beta2, square.at[k], c.one_minus_beta2 * (g * g));
    direction.at[k] = mean.at[k] / (sqrtf(square.at[k]) / c.bias_correction2_sqrt + c.eps);
  });
  return direction;
}

/// Adds `factor` times `direction` to the weights.
template <class Number, int Width>
__device__ void add_to_weights(float factor, const pack<float, Width>& direction, pack<Number, Width>& weight) {
  unrolled<Width>([&](int k) { store_float(fmaf(factor, direction.at[k], to_float(weight.at[k])), weight.at[k]); });
}

/// Updates weights and their state with `grad`. Requires: not rowwise_adagrad.
template <class Number, int Width>
__device__ void optimizer_step(const update_constants& c, weight_pack<Number, Width>& x, pack<float, Width> grad) {
  unrolled<Width>([&](int k) { grad.at[k] = decayed(c, grad.at[k], to_float(x.weight.at[k])); });
  if (c.kind == optimizer_kind::adagrad)
    grad = adagrad_step(c, x.first, grad);
  else if (c.kind == optimizer_kind::adam)
    grad = adam_step(c, x.first, x.second, grad);
  else if (c.momentum != 0.0F)
    grad = momentum_step(c, x.first, grad);
  add_to_weights(-c.lr, grad, x.weight);
}

/// The same for weights at .. at + Width in memory.
template <class Number, int Width>
__device__ void optimizer_step(const update_constants& c, std::size_t at, Number* weights, optimizer_state_view state,
                               const pack<float, Width>& grad) {
  auto x = load_weights<Width>(c, at, weights, state);
  optimizer_step(c, x, grad);
  store_weights(c, x, at, weights, state);
}

}  // namespace troupe::kernels::cuda
