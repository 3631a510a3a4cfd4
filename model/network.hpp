// The interface of networks: a pure function of parameters and input, and its backward pass. A network has shapes only:
// parameters, buffers, activations and gradients belong to the caller, in the memory of the stream's device. Thread:
// any, also for several batches at once.
//
// The backward pass has two parts. `backward_inputs` computes the gradient of the input first, because parameter
// servers wait for it. `backward_parameters` computes the parameters' gradients, and reports each finished layer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device.hpp"
#include "model/parameters.hpp"
#include "model/rank_means.hpp"
#include "model/slice_sums.hpp"

namespace troupe::model {

/// Arguments of a pass besides tensors.
struct pass_mode {
  bool training = false;
  /// The key of the layers' random numbers, such as a hash of (seed, step, rank): the same key gives the same pass.
  std::uint64_t key = 0;
  /// The passes of the other ranks; null: there are none, or the network does not ask them (`synchronizes`).
  rank_means* ranks = nullptr;
  /// The first sample's place in the rank's batch, of which the pass may be of a part.
  std::uint64_t first_sample = 0;
  /// The passes of the other slices of a network that tensor parallelism cuts; null: it is whole.
  slice_sums* slices = nullptr;
};

class network {
 public:
  /// The network's parameters and buffers.
  struct tensors {
    const float* parameters = nullptr;
    float* buffers = nullptr;  ///< may be null if there are none
  };

  /// State between forward and backward of one batch. Reused for the next batch. Thread: one at a time.
  class activations {
   public:
    virtual ~activations() = default;
    /// Returns the outputs of the last forward pass [size, out_features], which the loss overwrites with their
    /// gradient.
    virtual float* outputs() const = 0;
    /// Returns the addresses of all tensors, in a fixed order.
    virtual void append_addresses(std::vector<const void*>& to) const = 0;
  };

  virtual ~network() = default;

  virtual std::size_t in_features() const = 0;
  virtual std::size_t out_features() const = 0;

  /// Returns the trained tensors with PyTorch's names, in the order of the flat buffer, without gaps.
  virtual std::vector<named_parameter> parameters() const = 0;
  /// Returns the tensors that are not trained but written by training passes, such as running means, in their own flat
  /// buffer.
  virtual std::vector<named_parameter> buffers() const { return {}; }
  /// Returns the parameter range of each layer, whose gradient is finished as a whole, in the order of the flat buffer.
  virtual std::vector<parameter_range> ranges() const = 0;
  virtual std::size_t parameter_count() const = 0;
  /// Returns the floats that a step keeps for each sample: activations and their gradients, without the input.
  virtual std::size_t numbers_per_sample() const = 0;
  /// Returns the multiplications with an addition that the forward pass of a sample takes in products.
  virtual std::uint64_t multiply_adds() const = 0;

  /// Fill in initial parameters and buffers, which depend on shape and seed only.
  virtual std::vector<float> initial_parameters(std::uint64_t seed) const = 0;
  virtual std::vector<float> initial_buffers() const { return {}; }

  /// Returns whether passes depend on the key; then they are not captured as a graph.
  virtual bool uses_key() const { return false; }

  /// Whether training passes of several ranks ask each other; then they are not captured either.
  virtual bool synchronizes() const { return false; }
  /// Takes part in the passes of the other ranks, forward and back to the inputs, without samples.
  virtual void stand_by(rank_means& /*ranks*/) const {}

  virtual std::unique_ptr<activations> make_activations() const = 0;

  /// Computes the outputs [size, out_features], in `a`, for `input` [size, in_features].
  virtual float* forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                         const float* input, activations& a) const = 0;

  /// Computes `grad_input` [size, in_features] from `grad_outputs` [size, out_features]. Requires: `forward` with the
  /// same arguments before. `grad_input` may be null. A network may write zeros for columns whose gradient is not
  /// needed.
  virtual void backward_inputs(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                               const float* input, activations& a, const float* grad_outputs,
                               float* grad_input) const = 0;

  /// Computes the parameters' gradients. Requires: `backward_inputs` with the same arguments before. For each layer,
  /// from the end of the buffer, writes the gradient to `grad_at(range)`, and calls `finished(range)` once it is
  /// enqueued on the stream.
  virtual void backward_parameters(kernels::stream& on, std::size_t size, const float* input, const activations& a,
                                   const float* grad_outputs, const std::function<float*(parameter_range)>& grad_at,
                                   const std::function<void(parameter_range)>& finished) const = 0;
};

/// Samples' targets in the device's memory. The member that the loss does not use may be null.
struct loss_targets {
  const std::int64_t* classes = nullptr;  ///< [size]
  const float* values = nullptr;          ///< [size, outputs]
};

/// Computes into `loss` what samples with these `outputs` [size, out_features] add to the mean loss of their batch, and
/// overwrites the outputs with their gradient.
using loss_function = std::function<void(kernels::stream& on, kernels::batch_part samples, const loss_targets& targets,
                                         float* outputs, double* loss)>;

}  // namespace troupe::model
