// A module's forward and backward pass. It runs where the module's parameters are: with a CUDA device, inputs and the
// output's gradient are copied there, outputs and the input's gradient back.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "actors/trainer/trained_parameters.hpp"
#include "base/exception_text.hpp"
#include "kernels/device_array.hpp"
#include "troupe/error.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// Runs a function of a user's module. Prefixes the text of its exceptions with module and function, except an `error`,
/// which names its source itself, and failures of devices.
template <class Function>
auto in_module(const nn::module& of, const char* function, Function run) {
  try {
    return run();
  } catch (const error&) {
    throw;
  } catch (const kernels::device_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw no_memory(of.type() + "." + function);
  } catch (const std::exception& e) {
    throw error(error_kind::run, of.type() + "." + function + ": " + troupe::text_of(e));
  }
}

/// Belongs to one thread. All functions wait for the device. `of`, `tensors` and `numbers` outlive it.
class module_pass {
 public:
  struct mode {
    bool training = false;
    std::uint64_t key = 0;
    /// Averages numbers over the ranks within the pass. Outlives it. Null: the pass uses its own batch alone.
    nn::rank_means* ranks = nullptr;
    /// Sums numbers over the slices of the network within the pass. Outlives it. Null: the network is not sliced.
    nn::slice_sums* slices = nullptr;
    /// The parameters on the device, for both passes. Null: those of `numbers`, which must not change in between.
    std::shared_ptr<const float> weights = nullptr;
  };

  /// Applies the module, whose tensors these are. If `state` is not null, begins with it: an empty one means zeros.
  /// Throws `error` if the module does not accept the input or state.
  module_pass(const nn::module& of, const nn::module_tensors& tensors, const actors::trained_parameters& numbers,
              const tensor& input, const mode& how, const tensor* state = nullptr);

  /// In the host's memory, as are all tensors that the caller gives or gets.
  const tensor& output() const { return output_; }
  /// The state after the input; empty if none was passed.
  tensor next_state() const { return carried_ ? carried_->next : tensor(); }
  /// Return where NaN or Inf is, as in `has NaN in sample 3 (number 13 of 32)`; "" if nowhere.
  std::string spoilt_input() const;
  std::string spoilt_output() const;
  /// Returns the input's gradient, computed from the output's.
  tensor backward_input(const tensor& grad);
  /// Makes the module write the gradients of its parameters, on the device. Call it last. `ranges`: the module's.
  void backward_parameters(const tensor& grad, std::span<const nn::parameter_range> ranges, nn::gradient_places& to);

 private:
  void make_saved(const tensor& input);
  nn::pass how(bool is_second_backward) const;
  nn::pass_numbers numbers();
  kernels::stream& on() const { return numbers_->compute(); }
  tensor make(const shape& lengths, dtype type) const;
  tensor to_device(const tensor& numbers) const;
  view<const float> grad_there(const tensor& grad);

  const nn::module* module_;
  const nn::module_tensors* tensors_;
  const actors::trained_parameters* numbers_;
  mode mode_;
  bool has_gone_back_ = false;
  tensor output_;
  // Copies on the device; on the processor, the caller's own tensors.
  tensor input_there_;
  tensor output_there_;
  tensor grad_there_;
  /// The module's state, which is passed from pass to pass.
  struct carried {
    tensor given_there;  ///< empty for zeros
    tensor next_there;
    tensor next;
  };
  std::unique_ptr<carried> carried_;  ///< null if no state was passed
  kernels::device_array<float> saved_;
};

/// Throws `error` if a module has no code for `where`; `option`: the option that selects the device.
void check_runs_on(const nn::module& what, const kernels::device& where, const char* option);

}  // namespace troupe::runtime
