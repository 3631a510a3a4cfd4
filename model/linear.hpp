// The linear layer, with or without a ReLU after it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device_array.hpp"
#include "model/parameters.hpp"

namespace troupe::model {

/// What the passes of a batch save of a layer for the later ones: the factors of its products where the stream has them
/// in bf16, each rounded once, and the mask of its output. Empty on the processor.
struct saved_tensors {
  kernels::device_array<std::uint16_t> x;
  kernels::device_array<std::uint16_t> weight;
  kernels::device_array<std::uint16_t> grad;  ///< of the pre-activation
  kernels::device_array<std::byte> mask;
  bool has_mask = false;  ///< whether the last forward pass has written it

  /// Returns the addresses of all of them, in a fixed order.
  void append_addresses(std::vector<const void*>& to) const;
};

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

  // The passes of one batch may share what `saved` holds, on one stream, with the same arguments. Without it, each pass
  // rounds its factors itself.

  /// Computes y [batch, out] from x [batch, in]. `masks`: saves the mask of y if it can; it needs a ReLU.
  void forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, float* y,
               saved_tensors* saved = nullptr, bool masks = false) const;

  // Backward from the gradient of the pre-activation: see `backward_activation`.

  /// Computes the gradient of x W^T + b from that of y; grad may be grad_y. Requires: there is an activation.
  void backward_activation(kernels::stream& on, std::size_t batch, const float* y, const float* grad_y,
                           float* grad) const;

  /// Computes grad_x; overwrites it. If it is null, only saves `grad`. `below`: what the layer with the output x has
  /// saved, or null. Returns whether its mask is applied, so that grad_x is the gradient of its pre-activation.
  bool backward_input(kernels::stream& on, std::size_t batch, const float* parameters, const float* grad, float* grad_x,
                      saved_tensors* saved = nullptr, const saved_tensors* below = nullptr) const;

  /// Computes the gradient of the parameters; overwrites it. Requires: `saved` is null, or `backward_input` with it
  /// before.
  void backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const float* grad,
                           float* grad_parameters, const saved_tensors* saved = nullptr) const;
};

}  // namespace troupe::model
