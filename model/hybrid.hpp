// The hybrid model: several embedding tables and dense features into an MLP, and a loss.
//
// The input is the dense features first, then the tables' pooled rows in order. The tables' rows come from elsewhere
// (parameter servers); this is the dense side, as every trainer holds it. How the input reaches the top MLP:
//
//   cat  as it is.
//   dot  as in DLRM (Naumov et al., 2019): a bottom MLP, ReLU after each of its layers, makes a vector of the tables'
//        width from the dense features. Top MLP's input: that vector, then the dots of all pairs of the vectors
//        (the bottom MLP's, then the tables'), in the order of kernels/interaction.hpp. Without dense features there is
//        no bottom MLP, and the dots are all.
//
// The parameters are one flat buffer: the bottom MLP's, then the top MLP's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/interaction.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "model/mlp.hpp"

namespace troupe {

class hybrid_model {
 public:
  /// A model with interaction `cat`.
  hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden, loss_kind loss);

  /// The model of a job in which `check_network` has found no fault.
  hybrid_model(const data_spec& spec, const job& what);

  const data_spec& spec() const { return spec_; }

  /// Width of the input.
  std::size_t in_features() const { return in_features_; }

  /// Width of the output.
  std::size_t out_features() const { return top_.out_features(); }

  std::size_t parameter_count() const;

  /// Numbers of a sample that a step keeps: the input, what is between the layers, and their gradients.
  std::size_t numbers_per_sample() const;

  /// Initial parameters, a function of the seed and the model's shape.
  std::vector<float> initial_parameters(std::uint64_t seed) const;

  /// The parameters of each layer, in order.
  std::vector<parameter_range> ranges() const;

  /// All tensors of the parameters in order: bottom.0.weight, bottom.0.bias, ..., top.0.weight, ...
  std::vector<named_parameter> parameters() const;

  /// Where table `table`'s pooled row begins in a row of the input.
  std::size_t column_of(std::size_t table) const { return columns_[table]; }

  /// Copies the dense features into the first columns of `input`.
  void place_dense(const batch& samples, kernels::row_matrix<float> input) const;

  // The passes compute on the stream's device, where all that they are given lies.

  /// Numbers kept between forward and backward of one batch. Reused from batch to batch.
  struct activations {
    mlp::activations bottom;
    mlp::activations top;
    kernels::device_array<float> dense;   ///< the bottom MLP's input [size, dense features]
    kernels::device_array<float> joined;  ///< the top MLP's input [size, its width]; with `cat`, the input itself is
    kernels::device_array<float> grad_joined;     ///< and its gradient
    kernels::device_array<float> grad_of_bottom;  ///< gradient of the bottom MLP's output
    kernels::device_array<float> zeros;           ///< a zero for each dense feature

    /// The model's outputs, or what the loss has put in their place.
    float* outputs() const { return top.outputs.back().data(); }

    /// Where all of them are, in one order.
    void append_addresses(std::vector<const void*>& to) const;
  };

  /// The outputs [size, out_features] for `input` [size, in_features]; they lie in `a`.
  float* forward(kernels::stream& on, std::size_t size, const float* parameters, const float* input,
                 activations& a) const;

  /// Backward from `grad_outputs` [size, out_features], after `forward` with the same arguments, as far as the tables
  /// wait for it: the gradients of their rows go to their columns of `grad_input` [size, in_features], which may be
  /// null if there are no tables. The dense features' columns get theirs with `cat`, and zeros with `dot`: nobody needs
  /// theirs there.
  void backward_inputs(kernels::stream& on, std::size_t size, const float* parameters, const float* input,
                       activations& a, const float* grad_outputs, float* grad_input) const;

  /// The rest of the backward pass, after `backward_inputs` with the same arguments. Gradients of the parameters go to
  /// `grad_at(range)`, called for each layer, the top MLP's last one first and the bottom MLP's first one last;
  /// `finished(range)` follows when they are written, or will be in the stream's order, while the pass goes on.
  void backward_parameters(kernels::stream& on, std::size_t size, const float* input, const activations& a,
                           const float* grad_outputs, const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const;

  /// The numbers that a batch's loss compares with, on a device.
  struct targets {
    const std::int64_t* classes = nullptr;  ///< cross-entropy: [size]
    const float* values = nullptr;          ///< other losses: [size, outputs]
  };

  /// Mean loss over the batch, which goes to `loss`, and its gradient with respect to `outputs` [size, outputs] in
  /// place.
  void loss(kernels::stream& on, std::size_t size, const targets& of_batch, float* outputs, double* loss) const;

 private:
  hybrid_model(const data_spec& spec, loss_kind loss, interaction_kind interaction,
               std::span<const std::size_t> bottom_hidden, std::span<const std::size_t> hidden);

  std::size_t bottom_count() const { return bottom_ ? bottom_->parameter_count() : 0; }
  template <class T>
  std::vector<kernels::row_matrix<T>> vectors(T* of_bottom, T* input) const;
  void interact(kernels::stream& on, std::size_t size, const float* parameters, const float* input,
                activations& a) const;
  void interact_backward(kernels::stream& on, std::size_t size, const float* input, activations& a,
                         float* grad_input) const;

  data_spec spec_;
  loss_kind loss_;
  interaction_kind interaction_;
  std::size_t in_features_;
  std::vector<std::size_t> columns_;
  std::optional<mlp> bottom_;  // with `dot` and dense features
  mlp top_;
};

/// What is wrong with the network that `what` asks for on data of `spec`, as a message, or nothing: settings that the
/// data have no use for, vectors that cannot meet, sizes beyond any machine.
std::optional<std::string> check_network(const job& what, const data_spec& spec);

}  // namespace troupe
