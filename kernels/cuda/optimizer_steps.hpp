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

/// A pack of weights and the state of their optimizer, in registers. State that the optimizer has not is 0.
template <class Number, int kWidth>
struct weight_pack {
  pack<Number, kWidth> weight;
  pack<float, kWidth> first = {};
  pack<float, kWidth> second = {};
};

/// Whether an optimizer other than rowwise_adagrad has the first or the second number of state for each weight.
inline __device__ bool has_first(const update_constants& c) {
  return c.kind == optimizer_kind::adagrad || c.kind == optimizer_kind::adam ||
         (c.kind == optimizer_kind::sgd && c.momentum != 0.0F);
}
inline __device__ bool has_second(const update_constants& c) { return c.kind == optimizer_kind::adam; }

template <int kWidth, class Number>
__device__ weight_pack<Number, kWidth> load_weights(const update_constants& c, std::size_t at, const Number* weights,
                                                    optimizer_state_view state) {
  weight_pack<Number, kWidth> x;
  x.weight = load_pack<kWidth>(weights + at);
  if (has_first(c)) x.first = load_pack<kWidth>(static_cast<const float*>(state.first) + at);
  if (has_second(c)) x.second = load_pack<kWidth>(static_cast<const float*>(state.second) + at);
  return x;
}

template <class Number, int kWidth>
__device__ void store_weights(const update_constants& c, const weight_pack<Number, kWidth>& x, std::size_t at,
                              Number* weights, optimizer_state_view state) {
  if (has_first(c)) store_pack(x.first, state.first + at);
  if (has_second(c)) store_pack(x.second, state.second + at);
  store_pack(x.weight, weights + at);
}

template <int kWidth>
__device__ pack<float, kWidth> momentum_step(const update_constants& c, pack<float, kWidth>& velocity,
                                             const pack<float, kWidth>& grad) {
  pack<float, kWidth> direction;
  unrolled<kWidth>([&](int k) {
    velocity.at[k] = fmaf(c.momentum, velocity.at[k], grad.at[k]);
    direction.at[k] = c.nesterov ? fmaf(c.momentum, velocity.at[k], grad.at[k]) : velocity.at[k];
  });
  return direction;
}

template <int kWidth>
__device__ pack<float, kWidth> adagrad_step(const update_constants& c, pack<float, kWidth>& squares,
                                            const pack<float, kWidth>& grad) {
  pack<float, kWidth> direction;
  unrolled<kWidth>([&](int k) {
    squares.at[k] = fmaf(grad.at[k], grad.at[k], squares.at[k]);
    direction.at[k] = grad.at[k] / (sqrtf(squares.at[k]) + c.eps);
  });
  return direction;
}

template <int kWidth>
__device__ pack<float, kWidth> adam_step(const update_constants& c, pack<float, kWidth>& mean,
                                         pack<float, kWidth>& square, const pack<float, kWidth>& grad) {
  pack<float, kWidth> direction;
  unrolled<kWidth>([&](int k) {
    const float g = grad.at[k];
    mean.at[k] = fmaf(c.beta1, mean.at[k], c.one_minus_beta1 * g);
    square.at[k] = fmaf(c.beta2, square.at[k], c.one_minus_beta2 * (g * g));
    direction.at[k] = mean.at[k] / (sqrtf(square.at[k]) / c.bias_correction2_sqrt + c.eps);
  });
  return direction;
}

/// Adds `factor` times `direction` to the weights.
template <class Number, int kWidth>
__device__ void add_to_weights(float factor, const pack<float, kWidth>& direction, pack<Number, kWidth>& weight) {
  unrolled<kWidth>([&](int k) { store_float(fmaf(factor, direction.at[k], to_float(weight.at[k])), weight.at[k]); });
}

/// Updates weights and their state with `grad`. Requires: not rowwise_adagrad.
template <class Number, int kWidth>
__device__ void optimizer_step(const update_constants& c, weight_pack<Number, kWidth>& x, pack<float, kWidth> grad) {
  unrolled<kWidth>([&](int k) { grad.at[k] = decayed(c, grad.at[k], to_float(x.weight.at[k])); });
  if (c.kind == optimizer_kind::adagrad)
    grad = adagrad_step(c, x.first, grad);
  else if (c.kind == optimizer_kind::adam)
    grad = adam_step(c, x.first, x.second, grad);
  else if (c.momentum != 0.0F)
    grad = momentum_step(c, x.first, grad);
  add_to_weights(-c.lr, grad, x.weight);
}

/// The same for weights at .. at + kWidth in memory.
template <class Number, int kWidth>
__device__ void optimizer_step(const update_constants& c, std::size_t at, Number* weights, optimizer_state_view state,
                               const pack<float, kWidth>& grad) {
  auto x = load_weights<kWidth>(c, at, weights, state);
  optimizer_step(c, x, grad);
  store_weights(c, x, at, weights, state);
}

}  // namespace troupe::kernels::cuda
