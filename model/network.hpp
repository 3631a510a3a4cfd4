// A network, as those who train it know it: a pure function of parameters and an input, and its backward pass. It holds
// shapes, not numbers: parameters, buffers, activations and gradients belong to the caller and lie in the memory of the
// stream's device. So one network serves any number of batches at once, and any thread.
//
// The backward pass has two parts. `backward_inputs` goes down to the input at once, because others wait for that
// gradient; `backward_parameters` follows, and tells of each layer when its gradient is there.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/device.hpp"
#include "model/parameters.hpp"

namespace troupe::model {

/// What a pass may depend on beside its numbers.
struct pass_mode {
  bool training = false;
  /// Where the layers' random numbers come from, such as a hash of (seed, step, rank): who gives the same key again
  /// gets the same pass.
  std::uint64_t key = 0;
};

class network {
 public:
  /// The network's numbers.
  struct tensors {
    const float* parameters = nullptr;
    float* buffers = nullptr;  ///< may be null if there are none
  };

  /// What is kept between forward and backward of one batch. Reused from batch to batch. Not thread-safe.
  class activations {
   public:
    virtual ~activations() = default;
    /// The outputs of the last forward pass [size, out_features], or what has been put in their place.
    virtual float* outputs() const = 0;
    /// Where all of the numbers are, in one order.
    virtual void append_addresses(std::vector<const void*>& to) const = 0;
  };

  virtual ~network() = default;

  virtual std::size_t in_features() const = 0;
  virtual std::size_t out_features() const = 0;

  /// All tensors that are trained, named as PyTorch does, in the order of the flat buffer and without gaps.
  virtual std::vector<named_parameter> parameters() const = 0;
  /// All tensors that are not, in a flat buffer of their own: training passes write them, such as running means.
  virtual std::vector<named_parameter> buffers() const { return {}; }
  /// The parameters of each layer, whose gradients are finished at once, in the order of the flat buffer.
  virtual std::vector<parameter_range> ranges() const = 0;
  virtual std::size_t parameter_count() const = 0;

  /// What parameters and buffers start with; functions of the network's shape and the seed.
  virtual std::vector<float> initial_parameters(std::uint64_t seed) const = 0;
  virtual std::vector<float> initial_buffers() const { return {}; }

  /// Whether passes depend on the key: then no device learns them by heart (`kernels::stream::repeat`).
  virtual bool uses_key() const { return false; }

  virtual std::unique_ptr<activations> make_activations() const = 0;

  /// The outputs [size, out_features] for `input` [size, in_features]; they lie in `a`.
  virtual float* forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                         const float* input, activations& a) const = 0;

  /// From `grad_outputs` [size, out_features], after `forward` with the same arguments, to `grad_input` [size,
  /// in_features], which may be null if nobody needs it. A network may leave zeros where it knows that nobody does.
  virtual void backward_inputs(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                               const float* input, activations& a, const float* grad_outputs,
                               float* grad_input) const = 0;

  /// The rest of the backward pass, after `backward_inputs` with the same arguments. The gradient of each layer's
  /// parameters goes to `grad_at(range)`, those at the end of the buffer first; `finished(range)` follows when it is
  /// written, or will be in the stream's order, while the pass goes on.
  virtual void backward_parameters(kernels::stream& on, std::size_t size, const float* input, const activations& a,
                                   const float* grad_outputs, const std::function<float*(parameter_range)>& grad_at,
                                   const std::function<void(parameter_range)>& finished) const = 0;
};

/// What a batch's loss compares with, in the device's memory: what the loss has a use for, the other one may be null.
struct loss_targets {
  const std::int64_t* classes = nullptr;  ///< [size]
  const float* values = nullptr;          ///< [size, outputs]
};

/// Mean loss of a batch's `outputs` [size, out_features], which goes to `loss`, and in place of the outputs its
/// gradient.
using loss_function = std::function<void(kernels::stream& on, std::size_t size, const loss_targets& of_batch,
                                         float* outputs, double* loss)>;

}  // namespace troupe::model
