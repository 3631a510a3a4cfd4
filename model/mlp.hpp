// A multi-layer perceptron: linear layers with ReLU between them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/module.hpp"

namespace troupe {

/// A stretch of the flat parameter buffer.
struct parameter_range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// What follows the last linear layer.
enum class last_activation : std::uint8_t { none, relu };

class mlp {
 public:
  mlp(std::size_t in, std::span<const std::size_t> hidden, std::size_t out,
      last_activation last = last_activation::none);

  std::size_t in_features() const { return layers_.front().what->in_features(); }
  std::size_t out_features() const { return layers_.back().what->out_features(); }
  std::size_t parameter_count() const { return parameter_count_; }

  /// Initial weights from a seed; layer by layer, so that they do not depend on anything but seed and shape. `number`
  /// tells the networks of one model apart.
  std::vector<float> initial_parameters(std::uint64_t seed, std::uint64_t number = 0) const;

  /// Numbers kept between forward and backward of one batch: the layers' outputs, and the gradients with respect to
  /// them. A layer that works in place shares the buffers of the one before. Reused from batch to batch.
  struct activations {
    std::vector<std::vector<float>> outputs;
    std::vector<std::vector<float>> grads;
  };

  /// Runs the layers on x [batch, in]; the result [batch, out] is the last of `a.outputs`.
  float* forward(std::size_t batch, const float* parameters, const float* x, activations& a) const;

  /// Backward from `grad_y` [batch, out] to the layers' inputs: fills `a.grads`, and `grad_x` [batch, in] unless it is
  /// null.
  void backward_inputs(std::size_t batch, const float* parameters, const float* x, activations& a, const float* grad_y,
                       float* grad_x) const;

  /// The rest of the backward pass, after `backward_inputs` with the same arguments. Gradients of the parameters go to
  /// `grad_at(range)`, called for each layer that has any, last layer first; `finished(range)` follows when they are
  /// written, while the pass goes on.
  void backward_parameters(std::size_t batch, const float* x, const activations& a, const float* grad_y,
                           const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const;

  /// The parameters of each layer that has any, in order.
  std::vector<parameter_range> ranges() const;

  /// All tensors of the parameters in order, named as in a torch.nn.Sequential of the same layers: 0.weight, 0.bias,
  /// and so on, the ReLU between linear layers counted.
  std::vector<named_parameter> parameters() const;

 private:
  struct layer {
    std::unique_ptr<module> what;
    parameter_range parameters;
    std::size_t buffer;  // which of the activations' buffers its output is in
  };

  void add(std::unique_ptr<module> what);

  std::vector<layer> layers_;
  std::size_t parameter_count_ = 0;
};

/// Cuts the parameters into buckets for allreduce, in the order in which the backward pass finishes them: last layer
/// first, whole layers, each bucket closed when it has reached its size (`first_bytes` for the first one).
std::vector<parameter_range> plan_buckets(const std::vector<parameter_range>& layers, std::size_t first_bytes,
                                          std::size_t bytes);

}  // namespace troupe
