// The linear layer, with or without a ReLU after it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.hpp"
#include "model/parameters.hpp"

namespace troupe::model {

/// y = x W^T + b, and then max(y, 0) with `activation::relu`. Parameters: W [out, in] row-major, then b [out].
///
/// A layer has shapes only: parameters, activations and gradients belong to the caller, in the memory of the stream's
/// device. Thread: any, also for several batches at once.
struct linear {
  std::size_t in = 0;
  std::size_t out = 0;
  kernels::activation then = kernels::activation::none;

  std::size_t parameter_count() const { return out * in + out; }

  /// Returns the tensors of the parameters, in the order of their buffer, without gaps.
  std::vector<named_parameter> parameters() const { return {{"weight", {out, in}, 0}, {"bias", {out}, out * in}}; }

  /// Fills `parameters`, in host memory, with initial weights: uniform in ±1/sqrt(in), a function of `key` only.
  void initialize(std::uint64_t key, float* parameters) const;

  /// Computes y [batch, out] from x [batch, in].
  void forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, float* y) const;

  // Backward from the gradient of the pre-activation: see `backward_activation`.

  /// Computes the gradient of x W^T + b from that of y; grad may be grad_y. Requires: there is an activation.
  void backward_activation(kernels::stream& on, std::size_t batch, const float* y, const float* grad_y,
                           float* grad) const;

  /// Computes grad_x; overwrites it.
  void backward_input(kernels::stream& on, std::size_t batch, const float* parameters, const float* grad,
                      float* grad_x) const;

  /// Computes the gradient of the parameters; overwrites it.
  void backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const float* grad,
                           float* grad_parameters) const;
};

}  // namespace troupe::model
