// A module applied to an input, and the way back through it. It computes where the module's parameters are: on a CUDA
// device, inputs and the output's gradient are copied there, outputs and the input's gradient back.

#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "actors/trained_parameters.hpp"
#include "base/exception_text.hpp"
#include "kernels/device_array.hpp"
#include "troupe/error.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// Runs a function of a user's module. What it throws gets the module and the function before its words; an `error`,
/// which names its thing, and a failed device stay as they are.
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
    /// Averages numbers over the ranks within the pass, and outlives it. Null: the pass uses its own batch alone.
    nn::rank_means* ranks = nullptr;
    /// Sums numbers over the slices of the network within the pass, and outlives it. Null: it is whole.
    nn::slice_sums* slices = nullptr;
    /// The parameters, on the device, both ways. Null: those of `numbers`, which must not change in between.
    std::shared_ptr<const float> weights = nullptr;
  };

  /// Applies the module, whose tensors these are. It carries on from `state`, if that is not null: an empty one is
  /// zeros. Throws `error` if it cannot take such an input or state.
  module_pass(const nn::module& of, const nn::module_tensors& tensors, const actors::trained_parameters& numbers,
              const tensor& input, const mode& how, const tensor* state = nullptr);

  /// In the host's memory, as is all that comes from and goes to the caller.
  const tensor& output() const { return output_; }
  /// After the input; empty if there was none before it.
  tensor next_state() const { return carried_ ? carried_->next : tensor(); }
  /// Return where NaN or Inf is, as in `has NaN in sample 3 (number 13 of 32)`; "" if it is nowhere.
  std::string spoilt_input() const;
  std::string spoilt_output() const;
  /// Returns the input's gradient, from that of the output.
  tensor backward_input(const tensor& grad);
  /// Has the module write the gradients of its parameters, which are on the device; last of all. `ranges`: of the
  /// module.
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
  // On the device; if that is the processor, what the caller has.
  tensor input_there_;
  tensor output_there_;
  tensor grad_there_;
  /// A state that the module carries from pass to pass.
  struct carried {
    tensor given_there;  ///< empty: zeros
    tensor next_there;
    tensor next;
  };
  std::unique_ptr<carried> carried_;  ///< null: none was given
  kernels::device_array<float> saved_;
};

/// Throws `error` if a module has no code for `where`; `option`: what has put it there.
void check_runs_on(const nn::module& what, const kernels::device& where, const char* option);

}  // namespace troupe::runtime
