// The interface of modules: layers, heads of losses, whole networks. A module is a pure function of its parameters and
// an input, with its backward pass. It only holds shapes; parameters, buffers, outputs and gradients belong to the
// caller, in the memory of the stream's device. So one object serves any number of contexts. Thread: any.
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
/// Describes the options of a layer in job files (option_fields.hpp).
template <class Options>
struct option_fields;

/// The arguments of a pass, except tensors.
struct pass {
  /// Computes the pass. All numbers of the pass are in its device's memory: the host's, unless the module runs on
  /// devices (`module::runs_on_devices`).
  kernels::stream& stream;
  bool training = false;
  /// The key of the module's random numbers, such as a hash of (seed, step, rank): the same key gives the same pass.
  std::uint64_t key = 0;
  /// The index of the pass's first sample in the trainer's batch; the pass may cover a part of it.
  std::uint64_t first_sample = 0;
  /// Reaches the same passes of other trainers, for modules that synchronize; null: the pass is independent of other
  /// trainers. Composite modules pass it on.
  rank_means* ranks = nullptr;
  /// Reaches the same passes of the network's other slices (tensor parallelism); null: the network is not sliced.
  slice_sums* slices = nullptr;
  /// In `backward_parameters`: a backward pass for the input's gradient came before with the same arguments, and its
  /// numbers in `saved` are still there.
  bool is_second_backward = false;

  /// The cudaStream_t for the user's own kernels; null: the numbers are in the host's memory.
  void* cuda_stream() const;
};

/// The numbers of a pass.
struct pass_numbers {
  tensor_list<const float> parameters = {};
  tensor_list<float> buffers = {};
  tensor_view input = {};
  /// Has the shape that `module::output` returns. Troupe's own layers do not read it in a backward pass: the loss has
  /// then overwritten the network's outputs.
  view<float> output = {};
  std::span<float> saved = {};  ///< as many as `module::saved` returns: kept by forward for backward
  // For modules with state, both with the shape that `module::state` returns:
  view<const float> state = {};  ///< empty: zeros. No gradient passes back into it
  view<float> next_state = {};   ///< written by forward; empty: not needed
};

/// The gradients of a pass: the output's, and those to compute. Empty ones are not needed.
struct gradients {
  view<const float> output = {};
  view<float> input = {};
  tensor_list<float> parameters = {};
};

/// Receives the gradients of parameters, range by range.
class gradient_places {
 public:
  virtual ~gradient_places() = default;
  /// Returns the address for a range's gradient. Several ranges may be requested before the first is finished.
  virtual float* at(const parameter_range& which) = 0;
  /// The gradient of the range is written, or its work is enqueued on the stream.
  virtual void finished(const parameter_range& which) = 0;
};

/// Addresses in a flat gradient.
class flat_gradient final : public gradient_places {
 public:
  explicit flat_gradient(float* numbers) : numbers_(numbers) {}

  float* at(const parameter_range& which) override { return numbers_ + which.first; }
  void finished(const parameter_range& /*which*/) override {}

 private:
  float* numbers_;
};

/// The base of layers. Thread: any, for all members.
class module {
 public:
  virtual ~module() = default;

  /// Its name in errors, such as `linear`.
  virtual std::string type() const = 0;

  /// Returns the trained tensors, in the order of the flat buffer.
  virtual std::vector<parameter> parameters() const { return {}; }
  /// Returns the tensors that are not trained but written by training passes, such as running means.
  virtual std::vector<parameter> buffers() const { return {}; }
  /// Fills in the initial parameters and buffers, in host memory. They depend on the module and the key only. Default:
  /// zeros.
  virtual void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                          const tensor_list<float>& buffers) const;

  /// Returns the shape of the output. Throws `error` if the module does not accept the input. Here and in `saved` and
  /// `state` the input may have a type and a shape only, without numbers.
  virtual troupe::shape output(const tensor_view& input) const = 0;
  /// Returns how many numbers `forward` keeps for `backward` on the stream's device, besides input and output.
  virtual std::size_t saved(const tensor_view& /*input*/, const kernels::stream& /*on*/) const { return 0; }

  /// Returns the shape of the state at the beginning and end of a pass, such as an LSTM's, which the caller may pass
  /// from one part of a sequence to the next. Default: no dimensions, for modules without a state.
  virtual troupe::shape state(const tensor_view& /*input*/) const { return {}; }

  /// Returns the range of ids, if the input's numbers must be ids: they are checked before a pass, unless another
  /// module has computed them. Default: the module accepts any numbers.
  virtual std::optional<id_range> ids() const { return std::nullopt; }

  virtual void forward(const pass& how, const pass_numbers& numbers) const = 0;

  /// Computes and overwrites the requested gradients. Called after `forward` with the same arguments: once, or first
  /// for the input and then, by `backward_parameters`, for the parameters.
  virtual void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const = 0;

  /// For composite modules: their parts' gradients are sent one by one, while earlier parts are still computed.
  /// `ranges` returns all parameters, in order, without gaps. `backward_parameters` writes their gradients, from the
  /// last range to the first. Default: one range, written by `backward`.
  virtual std::vector<parameter_range> ranges() const;
  virtual void backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                                   gradient_places& to) const;

  /// Whether the module runs on a CUDA device, with a stream of that device. If not, it is refused there.
  virtual bool runs_on_devices() const { return false; }
  /// Returns the type of its first part that does not run on devices; empty if all do.
  virtual std::string first_without_device_code() const { return runs_on_devices() ? "" : type(); }
  /// Whether passes depend on the key: then they are not captured as a graph.
  virtual bool uses_key() const { return false; }
  /// Whether training passes exchange numbers with those of other trainers, as batch normalization over all trainers
  /// does, itself or in a part. A pass without samples then joins those of the others.
  virtual bool synchronizes() const { return false; }
  /// Whether the output has the input's numbers, so that a `sequential` skips the pass.
  virtual bool is_identity() const { return false; }
  /// Returns the multiply-adds of the forward pass's products for this input.
  virtual std::uint64_t multiply_adds(const tensor_view& /*input*/) const { return 0; }
};

/// A module's parameters and buffers, each tensor with its offset in the flat buffer.
struct module_tensors {
  explicit module_tensors(const module& of) : parameters(placed(of.parameters())), buffers(placed(of.buffers())) {}

  std::vector<parameter> parameters;
  std::vector<parameter> buffers;
};

/// A module's initial numbers, flat.
struct flat_numbers {
  std::vector<float> parameters;
  std::vector<float> buffers;
};
flat_numbers initial_numbers(const module& of, std::uint64_t key);

/// Returns how many numbers a module saves in a pass with this input. Throws `error` if no memory can hold so many.
std::size_t saved_count(const module& of, const tensor_view& input, const kernels::stream& on);

/// Throws `error` unless `input` is a matrix [n, features] of float32; `of`: the module, for the error.
void check_features(const module& of, const tensor_view& input, std::size_t features);

}  // namespace troupe::nn
