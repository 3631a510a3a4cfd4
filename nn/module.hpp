// The interface of modules: layers, losses' heads, whole networks. A module is a pure function of its parameters and an
// input, with its backward pass. It has shapes only; parameters, buffers, outputs and gradients belong to the caller,
// in the memory of the stream's device. So one object serves any number of contexts. Thread: any.
//
// To write a layer, derive from `module` and override `type`, `parameters`, `output`, `forward` and `backward`. A layer
// without `backward` does not compile: its class stays abstract.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nn/ids.hpp"
#include "nn/parameters.hpp"
#include "nn/tensor.hpp"

namespace troupe::kernels {
class stream;
}

namespace troupe::nn {

class rank_means;
class slice_sums;
/// How the options of a layer stand in job files (option_fields.hpp).
template <class Options>
struct option_fields;

/// The arguments of a pass besides tensors.
struct pass {
  /// What computes. All numbers of the pass are in its device's memory: the host's, unless the module runs on devices
  /// (`module::runs_on_devices`).
  kernels::stream& stream;
  bool training = false;
  /// The key of the module's random numbers, such as a hash of (seed, step, rank): the same key gives the same pass.
  std::uint64_t key = 0;
  /// The place of the first sample in the trainer's batch, of which the pass may be of a part.
  std::uint64_t first_sample = 0;
  /// The same passes of the other trainers, for modules that synchronise; null: this trainer is alone, or does not ask
  /// them. A module made of others hands it on.
  rank_means* ranks = nullptr;
  /// The same passes of the other slices of a network that tensor parallelism cuts; null: it is whole.
  slice_sums* slices = nullptr;
  /// In `backward_parameters`: a backward pass with the same arguments, for the input's gradient, came before, and what
  /// it wrote to `saved` is still there.
  bool is_second_backward = false;

  /// For kernels of one's own, the cudaStream_t to launch them on; null: the numbers are in the host's memory.
  void* cuda_stream() const;
};

/// The numbers of a pass.
struct pass_numbers {
  tensor_list<const float> parameters = {};
  tensor_list<float> buffers = {};
  tensor_view input = {};
  /// It has the shape that `module::output` returns. Troupe's own layers do not read it in a backward pass, before
  /// which the program's loss overwrites that of its network.
  view<float> output = {};
  std::span<float> saved = {};  ///< as many as `module::saved` returns: what forward keeps for backward
  // Of modules that carry a state, both of the shape that `module::state` returns:
  view<const float> state = {};  ///< none: zeros. No gradient goes back into it
  view<float> next_state = {};   ///< what forward fills in; none: is not asked for
};

/// The gradients of a pass: that of the output, and those to compute from it. One without numbers is not asked for.
struct gradients {
  view<const float> output = {};
  view<float> input = {};
  tensor_list<float> parameters = {};
};

/// Takes the gradients of parameters, range by range.
class gradient_places {
 public:
  virtual ~gradient_places() = default;
  /// Returns where to write the gradient of a range. Several ranges may be asked for before the first is finished.
  virtual float* at(const parameter_range& which) = 0;
  /// The gradient of the range is written, or its work is enqueued on the stream.
  virtual void finished(const parameter_range& which) = 0;
};

/// Places in a flat gradient.
class flat_gradient final : public gradient_places {
 public:
  explicit flat_gradient(float* numbers) : numbers_(numbers) {}

  float* at(const parameter_range& which) override { return numbers_ + which.first; }
  void finished(const parameter_range& /*which*/) override {}

 private:
  float* numbers_;
};

/// What layers derive from. Thread: any, for all of it.
class module {
 public:
  virtual ~module() = default;

  /// Its name in errors, such as `linear`.
  virtual std::string type() const = 0;

  /// Returns the trained tensors, in the order of the flat buffer.
  virtual std::vector<parameter> parameters() const { return {}; }
  /// Returns the tensors that are not trained but written by training passes, such as running means.
  virtual std::vector<parameter> buffers() const { return {}; }
  /// Fills in the initial parameters and buffers, in host memory, which depend on the module and the key only. Default:
  /// zeros.
  virtual void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                          const tensor_list<float>& buffers) const;

  /// Returns the shape of the output. Throws `error` if the module cannot take such an input. It may have a type and a
  /// shape here and no numbers yet; so it has for `saved` and `state`.
  virtual troupe::shape output(const tensor_view& input) const = 0;
  /// Returns how many numbers `forward` keeps for `backward` on that stream's device, besides input and output.
  virtual std::size_t saved(const tensor_view& /*input*/, const kernels::stream& /*on*/) const { return 0; }

  /// Returns the shape of the state that passes begin with and leave, such as an LSTM's: a value that the caller may
  /// carry from one part of a sequence to the next. Default: no dimensions, for modules without a state.
  virtual troupe::shape state(const tensor_view& /*input*/) const { return {}; }

  /// Returns the ids that the numbers of an input must be, if they are ids: they are checked before a pass, unless
  /// another module has computed them. Default: the module takes any numbers.
  virtual std::optional<id_range> ids() const { return std::nullopt; }

  virtual void forward(const pass& how, const pass_numbers& numbers) const = 0;

  /// Computes the gradients that are asked for; overwrites them. Called after `forward` with the same arguments, once,
  /// or first for the input and then, by `backward_parameters`, for the parameters.
  virtual void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const = 0;

  /// For modules that are made of others: the gradients of their parts' parameters leave one by one, while those of
  /// earlier parts are still computed. `ranges`: all parameters, in order, without gaps. `backward_parameters` writes
  /// their gradients, from the last range to the first. Default: a single range, written by `backward`.
  virtual std::vector<parameter_range> ranges() const;
  virtual void backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                                   gradient_places& to) const;

  /// Whether it computes on a CUDA device, given a stream of one. A module that does not is refused there.
  virtual bool runs_on_devices() const { return false; }
  /// The type of the first module in it that does not; empty: all do.
  virtual std::string first_without_device_code() const { return runs_on_devices() ? "" : type(); }
  /// Whether passes depend on the key; then they are not captured as a graph.
  virtual bool uses_key() const { return false; }
  /// Whether training passes ask those of the other trainers, as batch normalisation over all trainers does. So does a
  /// module in which one does. A pass of no samples then takes part in those of the others.
  virtual bool synchronizes() const { return false; }
  /// Whether the output has the input's numbers, so that a `sequential` leaves the pass out.
  virtual bool is_identity() const { return false; }
  /// Returns the multiplications with an addition that the forward pass of such an input takes in products.
  virtual std::uint64_t multiply_adds(const tensor_view& /*input*/) const { return 0; }
};

/// A module's parameters and buffers, each list with its tensors' places in a flat buffer.
struct module_tensors {
  explicit module_tensors(const module& of) : parameters(placed(of.parameters())), buffers(placed(of.buffers())) {}

  std::vector<parameter> parameters;
  std::vector<parameter> buffers;
};

/// The numbers that a module begins with, flat.
struct flat_numbers {
  std::vector<float> parameters;
  std::vector<float> buffers;
};
flat_numbers initial_numbers(const module& of, std::uint64_t key);

/// Returns how many numbers a module saves of a pass with such an input. Throws `error` if no memory has so many.
std::size_t saved_count(const module& of, const tensor_view& input, const kernels::stream& on);

/// Throws `error` unless `input` is a matrix [n, features] of float32; `of`: the module, for the error.
void check_features(const module& of, const tensor_view& input, std::size_t features);

}  // namespace troupe::nn
