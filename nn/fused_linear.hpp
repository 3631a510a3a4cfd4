// A linear layer within a `sequential`, with or without a following ReLU. If a device's products round their factors to
// bf16, each factor is rounded once for all passes of a batch; devices that can write and apply the ReLU's mask do so.
// Thread: any.

#pragma once

#include <cstddef>

#include "kernels/device.hpp"
#include "nn/module.hpp"

namespace troupe::nn {

/// The options of nn::linear, and the sizes of a pass.
struct fused_linear {
  std::size_t in = 0;
  std::size_t out = 0;
  bool has_bias = true;
  bool has_relu = false;
  std::size_t batch = 0;
  bool rounds = false;  ///< the stream's products read their factors as bf16
  bool masks = false;   ///< the stream's device may write masks

  static fused_linear of(const kernels::stream& on, std::size_t batch, std::size_t in, std::size_t out, bool has_bias,
                         bool has_relu);

  /// The number of floats that the passes of a batch share.
  std::size_t saved() const { return x_floats() + weight_floats() + grad_floats() + mask_floats(); }
  /// Returns the address of the mask; null if none is kept.
  std::byte* mask_in(float* saved) const;

  /// The inputs of its passes, and the numbers that they keep.
  struct numbers {
    const float* x = nullptr;
    const float* weight = nullptr;  ///< followed by the bias
    float* saved = nullptr;
  };

  /// Computes y [batch, out]. Returns whether it has written the mask, which training passes may do.
  bool forward(const pass& how, const numbers& of, float* y) const;
  /// Computes the gradient of x from that of the product; if `grad_x` is null, only rounds the latter. `mask`: of the
  /// layer with the output x, or null. Returns whether it was applied.
  bool backward_input(const pass& how, const numbers& of, const float* grad_y, float* grad_x,
                      const std::byte* mask) const;
  /// Computes the gradient of weight and bias.
  void backward_parameters(const pass& how, const numbers& of, const float* grad_y, float* grad_weight) const;

 private:
  static std::size_t floats_of(bool is_kept, std::size_t numbers) { return is_kept ? (numbers + 1) / 2 : 0; }
  std::size_t x_floats() const { return floats_of(rounds, batch * in); }
  std::size_t weight_floats() const { return floats_of(rounds, out * in); }
  std::size_t grad_floats() const { return floats_of(rounds, batch * out); }
  std::size_t mask_floats() const { return masks ? batch * kernels::relu_mask_bits(out) / 32 : 0; }
  kernels::product_factor kept(const float* factor, float* saved, std::size_t first) const;
};

}  // namespace troupe::nn
