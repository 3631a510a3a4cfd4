// The linear layer, with or without a ReLU behind it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.hpp"
#include "model/parameters.hpp"

namespace troupe::model {

/// y = x W^T + b, and then max(y, 0) with `activation::relu`. Parameters: W [out, in] row-major, then b [out].
///
/// A layer holds shapes, not numbers: parameters, activations and gradients belong to the caller and are in the memory
/// of the stream's device. So one layer serves any number of batches at once and may be called from any thread.
struct linear {
  std::size_t in = 0;
  std::size_t out = 0;
  kernels::activation then = kernels::activation::none;

  std::size_t parameter_count() const { return out * in + out; }

  /// The tensors that the parameters consist of, in the order of their buffer and without gaps.
  std::vector<named_parameter> parameters() const { return {{"weight", {out, in}, 0}, {"bias", {out}, out * in}}; }

  /// Fills `parameters`, in the host's memory, with initial weights: uniform in ±1/sqrt(in), a function of `key` alone.
  void initialize(std::uint64_t key, float* parameters) const;

  /// y [batch, out] from x [batch, in].
  void forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, float* y) const;

  // Backward, from the gradient of what was there before the activation: see `backward_activation`.

  /// From the gradient of y that of x W^T + b; grad may be grad_y. Only with an activation.
  void backward_activation(kernels::stream& on, std::size_t batch, const float* y, const float* grad_y,
                           float* grad) const;

  /// grad_x, overwritten.
  void backward_input(kernels::stream& on, std::size_t batch, const float* parameters, const float* grad,
                      float* grad_x) const;

  /// The gradient of the parameters, overwritten.
  void backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const float* grad,
                           float* grad_parameters) const;
};

}  // namespace troupe::model
