// A multi-layer perceptron: linear layers with ReLU between them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device_array.hpp"
#include "model/linear.hpp"
#include "model/parameters.hpp"

namespace troupe::model {

class mlp {
 public:
  /// `last`: what follows the last linear layer.
  mlp(std::size_t in, std::span<const std::size_t> hidden, std::size_t out,
      kernels::activation last = kernels::activation::none);

  std::size_t in_features() const { return layers_.front().what.in; }
  std::size_t out_features() const { return layers_.back().what.out; }
  std::size_t parameter_count() const { return parameter_count_; }
  /// The widths of all layers' outputs.
  std::size_t numbers_per_sample() const;

  /// Initial weights from a seed; layer by layer, so that they do not depend on anything but seed and shape. `number`
  /// tells the networks of one model apart.
  std::vector<float> initial_parameters(std::uint64_t seed, std::uint64_t number = 0) const;

  // The passes compute on the stream's device, where all that they are given lies.

  /// Numbers kept between forward and backward of one batch, by layer: its output, and the gradient with respect to
  /// what was there before its ReLU. Reused from batch to batch.
  struct activations {
    std::vector<kernels::device_array<float>> outputs;
    std::vector<kernels::device_array<float>> grads;

    /// Where all of them are, in one order.
    void append_addresses(std::vector<const void*>& to) const;
  };

  /// Runs the layers on x [batch, in]; the result [batch, out] is the last of `a.outputs`.
  float* forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, activations& a) const;

  /// Backward from `grad_y` [batch, out] to the layers' inputs: fills `a.grads`, and `grad_x` [batch, in] unless it is
  /// null.
  void backward_inputs(kernels::stream& on, std::size_t batch, const float* parameters, activations& a,
                       const float* grad_y, float* grad_x) const;

  /// The rest of the backward pass, after `backward_inputs` with the same arguments. Gradients of the parameters go to
  /// `grad_at(range)`, called for each layer, last layer first; `finished(range)` follows when they are written, or
  /// will be in the stream's order, while the pass goes on.
  void backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const activations& a,
                           const float* grad_y, const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const;

  /// The parameters of each layer, in order.
  std::vector<parameter_range> ranges() const;

  /// All tensors of the parameters in order, named as in a torch.nn.Sequential of the same layers: 0.weight, 0.bias,
  /// and so on, the ReLU between linear layers counted.
  std::vector<named_parameter> parameters() const;

 private:
  struct layer {
    linear what;
    parameter_range parameters;
  };

  std::vector<layer> layers_;
  std::size_t parameter_count_ = 0;
};

}  // namespace troupe::model
