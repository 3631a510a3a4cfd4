// The interface of modules: layers, losses' heads, whole networks. A module is a pure function of its parameters and an
// input, with its backward pass. It has shapes only; parameters, buffers, outputs and gradients belong to the caller.
// So one object serves any number of contexts. Thread: any.
//
// To write a layer, derive from `module` and override `type`, `parameters`, `output`, `forward` and `backward`. A layer
// without `backward` does not compile: its class stays abstract.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe::kernels {
class stream;
}
namespace troupe::model {
class rank_means;
}

namespace troupe::nn {

/// A tensor of a module's flat buffer, with PyTorch's name for it: `weight`, `0.bias`.
struct parameter {
  std::string name;
  troupe::shape shape = {};
};

/// The arguments of a pass besides tensors.
struct pass {
  /// What computes. All numbers of the pass are in its device's memory: the host's, unless the module runs on devices
  /// (`module::runs_on_devices`).
  kernels::stream& on;
  bool training = false;
  /// The key of the module's random numbers, such as a hash of (seed, step, rank): the same key gives the same pass.
  std::uint64_t key = 0;
  /// A backward pass that follows another with the same arguments: what that has left in `saved` is still there.
  bool goes_on = false;
  /// The same passes of the other trainers, for modules that synchronise; null: there are none, or they are not asked.
  /// A module made of others hands it on.
  model::rank_means* ranks = nullptr;

  /// For kernels of one's own, the cudaStream_t to launch them on; null: the numbers are in the host's memory.
  void* cuda_stream() const;
};

/// The numbers of a pass.
struct pass_numbers {
  const float* parameters = nullptr;
  float* buffers = nullptr;
  const tensor& input;
  float* output = nullptr;  ///< of the shape that `module::output` returns
  float* saved = nullptr;   ///< as many as `module::saved` returns: what forward keeps for backward
  // Of modules that carry a state, both of the shape that `module::state` returns:
  const float* state = nullptr;  ///< null: zeros. No gradient goes back into it
  float* next_state = nullptr;   ///< what forward fills in; null: is not asked for
};

/// A part of a flat buffer of parameters.
struct stretch {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Takes the gradients of parameters, stretch by stretch.
class gradient_places {
 public:
  virtual ~gradient_places() = default;
  /// Returns where to write the gradient of a stretch.
  virtual float* at(const stretch& which) = 0;
  /// The gradient of the stretch is written.
  virtual void finished(const stretch& which) = 0;
};

/// What layers derive from. Thread: any, for all of it.
class module {
 public:
  virtual ~module() = default;

  /// Its name in errors, such as `linear`.
  virtual std::string type() const = 0;

  /// Returns the trained tensors, in the order of the flat buffer, without gaps.
  virtual std::vector<parameter> parameters() const { return {}; }
  /// Returns the tensors that are not trained but written by training passes, such as running means.
  virtual std::vector<parameter> buffers() const { return {}; }
  /// Fills in the initial parameters and buffers, which depend on the module and the key only. Default: zeros.
  virtual void initialize(std::uint64_t key, float* parameters, float* buffers) const;

  /// Returns the shape of the output. Throws `error` if the module cannot take such an input. Within other modules the
  /// input has a type and a shape here, and no numbers yet; so it has for `saved`.
  virtual troupe::shape output(const tensor& input) const = 0;
  /// Returns how many numbers `forward` keeps for `backward`, besides input and output.
  virtual std::size_t saved(const tensor& /*input*/) const { return 0; }

  /// Returns the shape of the state that passes begin with and leave, such as an LSTM's: a value that the caller may
  /// carry from one part of a sequence to the next. Default: no dimensions, there is none.
  virtual troupe::shape state(const tensor& /*input*/) const { return {}; }

  virtual void forward(const pass& how, const pass_numbers& numbers) const = 0;

  /// Computes the gradients that are asked for from that of the output: of the input, of the parameters. A pointer that
  /// is null is not asked for. Overwrites them. Called after `forward` with the same arguments, once, or first for the
  /// input and then for the parameters.
  virtual void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                        float* grad_parameters) const = 0;

  /// For modules that are made of others: the gradients of their parts' parameters leave one by one, while those of
  /// earlier parts are still computed. `stretches`: all parameters, in order, without gaps. `backward_parameters`
  /// writes their gradients, from the last stretch to the first. Default: a single stretch, written by `backward`.
  virtual std::vector<stretch> stretches() const;
  virtual void backward_parameters(const pass& how, const pass_numbers& numbers, const float* grad_output,
                                   gradient_places& to) const;

  /// Whether it computes on a CUDA device, given a stream of one. A module that does not is refused there.
  virtual bool runs_on_devices() const { return false; }
  /// The type of the first module in it that does not; empty: all do.
  virtual std::string first_without_device_code() const { return runs_on_devices() ? "" : type(); }
  /// Whether passes depend on the key; then they are not captured as a graph.
  virtual bool uses_key() const { return false; }
  /// Whether training passes ask those of the other trainers, as batch normalisation over all trainers does. So does a
  /// module in which one does.
  virtual bool synchronizes() const { return false; }
};

/// The number of floats in all tensors. Throws `error` if no memory can have so many.
std::size_t count_of(const std::vector<parameter>& tensors);

/// Throws `error` unless `input` is a matrix [n, features] of float32; `of`: the module, for the error.
void check_features(const module& of, const tensor& input, std::size_t features);

}  // namespace troupe::nn
