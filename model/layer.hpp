// The interface of the layers that networks are described by (`layer_spec`): a pure function of parameters and the
// samples of a batch, with its backward pass. A layer has shapes only: parameters, buffers, inputs, outputs, gradients
// and what is saved belong to the caller, in the memory of the stream's device. Thread: any, also for several batches
// at once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "model/parameters.hpp"
#include "model/rank_means.hpp"
#include "model/slice_sums.hpp"

namespace troupe::model {

/// The lengths of one sample: [features], a sequence [steps, features], or an image [channels, height, width].
using sample_shape = std::vector<std::size_t>;

/// Returns how many numbers a sample has.
std::size_t count_of(const sample_shape& shape);
/// Returns a shape for people, such as "12 x 28 x 28".
std::string to_string(const sample_shape& shape);

class layer {
 public:
  /// The arguments of a pass besides tensors.
  struct pass {
    kernels::stream& on;
    std::size_t size = 0;  ///< samples
    bool training = false;
    /// The key of the layer's random numbers, a hash of (seed, step, rank, the layer's number in the whole network).
    std::uint64_t key = 0;
    /// The first sample's place in the rank's batch of the step.
    std::uint64_t first_sample = 0;
    /// The other ranks' passes; null: there are none, or layers do not ask them.
    rank_means* ranks = nullptr;
    /// The other slices' passes; null: layers are whole.
    slice_sums* slices = nullptr;
  };

  /// The numbers of a pass.
  struct numbers {
    const float* parameters = nullptr;
    float* buffers = nullptr;
    const float* input = nullptr;  ///< [size, in]
    float* output = nullptr;       ///< [size, out]; passes back do not read it: the loss overwrites the last one
    float* saved = nullptr;        ///< as many as `saved` returns: what passes keep for later ones
    // Of layers that go through a sequence; [2, size, hidden] of an LSTM, h and then c.
    const float* state = nullptr;  ///< before the first step; null: zeros. No gradient goes back into it
    float* next_state = nullptr;   ///< after the last step; null: is not asked for
  };

  layer(sample_shape in, sample_shape out) : in_(std::move(in)), out_(std::move(out)) {}
  virtual ~layer() = default;

  /// Its name in job files, such as `conv2d`.
  virtual std::string kind() const = 0;
  const sample_shape& in() const { return in_; }
  const sample_shape& out() const { return out_; }

  /// Returns the trained tensors with PyTorch's names, in the order of the flat buffer, without gaps.
  virtual std::vector<named_parameter> parameters() const { return {}; }
  /// Returns the tensors that are not trained but written by training passes, such as running means.
  virtual std::vector<named_parameter> buffers() const { return {}; }
  /// Fills in initial parameters and buffers, in host memory, which depend on the layer and the key only.
  virtual void initialize(std::uint64_t /*key*/, float* /*parameters*/, float* /*buffers*/) const {}

  /// Returns how many floats the passes of a batch keep for later ones, besides input and output.
  virtual std::size_t saved(std::size_t /*size*/) const { return 0; }
  /// Returns the multiplications with an addition that the forward pass of a sample takes in products.
  virtual std::uint64_t multiply_adds() const { return 0; }
  /// Whether passes depend on the key; then they are not captured as a graph.
  virtual bool uses_key() const { return false; }

  /// Whether training passes of several ranks ask each other; then a rank without a batch stands by.
  virtual bool synchronizes() const { return false; }
  /// Gives the other ranks' passes, forward and backward, what they wait for from a rank without samples.
  virtual void stand_by_forward(rank_means& /*ranks*/) const {}
  virtual void stand_by_backward(rank_means& /*ranks*/) const {}

  virtual void forward(const pass& how, const numbers& of) const = 0;

  /// Computes the input's gradient from that of the output; a null `grad_input` is not asked for. `grad_input` is not
  /// `grad_output`. Called after `forward` with the same arguments, in training.
  virtual void backward_input(const pass& how, const numbers& of, const float* grad_output,
                              float* grad_input) const = 0;

  /// Computes the gradient of the parameters; overwrites it. Called after `backward_input` with the same arguments, if
  /// there are parameters.
  virtual void backward_parameters(const pass& /*how*/, const numbers& /*of*/, const float* /*grad_output*/,
                                   float* /*grad_parameters*/) const {}

 private:
  sample_shape in_;
  sample_shape out_;
};

}  // namespace troupe::model
