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
  /// `last`: the activation after the last linear layer.
  mlp(std::size_t in, std::span<const std::size_t> hidden, std::size_t out,
      kernels::activation last = kernels::activation::none);

  std::size_t in_features() const { return layers_.front().what.in; }
  std::size_t out_features() const { return layers_.back().what.out; }
  std::size_t parameter_count() const { return parameter_count_; }
  /// Returns the sum of the layers' output widths.
  std::size_t numbers_per_sample() const;
  /// Returns the multiplications with an addition that the forward pass of a sample takes.
  std::uint64_t multiply_adds() const;

  /// Fills in initial weights, which depend on seed and shape only. `number` distinguishes the networks of a model.
  std::vector<float> initial_parameters(std::uint64_t seed, std::uint64_t number = 0) const;

  // The passes compute on the stream's device. Requires: all arguments are in its memory.

  /// Activations of one batch, by layer: its output, the gradient of its pre-activation, and what it saves besides.
  /// Reused for the next batch.
  struct activations {
    std::vector<kernels::device_array<float>> outputs;
    std::vector<kernels::device_array<float>> grads;
    std::vector<saved_tensors> saved;

    /// Returns the addresses of all of them, in a fixed order.
    void append_addresses(std::vector<const void*>& to) const;
  };

  /// Computes the layers for x [batch, in]; the result [batch, out] is the last of `a.outputs`. `training`: saves masks
  /// of the outputs where the device has them, which make `backward_inputs` faster.
  float* forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, activations& a,
                 bool training = true) const;

  /// Computes the gradients of the layers' inputs from `grad_y` [batch, out]: fills `a.grads`, and `grad_x` [batch, in]
  /// unless it is null.
  void backward_inputs(kernels::stream& on, std::size_t batch, const float* parameters, activations& a,
                       const float* grad_y, float* grad_x) const;

  /// Computes the parameters' gradients. Requires: `backward_inputs` with the same arguments before. For each layer,
  /// last one first, writes the gradient to `grad_at(range)`, and calls `finished(range)` once it is enqueued on the
  /// stream.
  void backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const activations& a,
                           const float* grad_y, const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const;

  /// Returns the parameter range of each layer, in order.
  std::vector<parameter_range> ranges() const;

  /// Returns the tensors of the parameters in order, with the names of a torch.nn.Sequential of the same layers:
  /// 0.weight, 0.bias and so on; the ReLUs are counted.
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
