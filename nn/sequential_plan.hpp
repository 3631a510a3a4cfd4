// How a `sequential` handles inputs of one shape: its steps, and the offsets of their numbers.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device.hpp"
#include "nn/fused_linear.hpp"
#include "nn/sequential.hpp"

namespace troupe::nn {

/// One computation: a module, or a linear one with a following ReLU. Identity modules have no step.
struct sequential::step {
  const module* what = nullptr;
  std::size_t number = 0;
  std::optional<fused_linear> fused = {};
  std::vector<parameter> parameters = {};
  std::vector<parameter> buffers = {};
  std::vector<parameter_range> ranges = {};  ///< in the whole buffer; empty without parameters
  std::size_t first_range = 0;               ///< the index of its last range among all ranges of `plan::trained`
  std::size_t first_parameter = 0;
  std::size_t first_buffer = 0;
  bool is_trained_below = false;  ///< an earlier step has parameters, so its output's gradient is needed
  troupe::shape input = {};
  troupe::shape output = {};
  std::uint64_t multiply_adds = 0;
  // Offsets in the saved numbers. The last step's output and its gradient are the caller's.
  std::size_t saved = 0;
  std::size_t saved_at = 0;
  std::size_t output_at = 0;
  std::size_t grad_at = 0;

  bool has_relu() const { return fused && fused->has_relu; }
};

/// The steps for inputs of one shape.
struct sequential::plan {
  tensor_view input;  ///< its type and shape
  const kernels::device* where = nullptr;
  bool is_on_host = false;  ///< where all streams compute alike
  std::vector<step> steps = {};
  std::size_t saved = 0;
  std::vector<const step*> trained = {};  ///< the steps with parameters, from the last one on
  std::size_t operations = 0;             ///< their multiply-adds
  /// By step: whether the last forward training pass wrote the ReLU's mask; all passes of this shape do the same.
  std::unique_ptr<std::atomic<bool>[]> has_mask = {};

  bool is_of(const tensor_view& given, const kernels::stream& on) const {
    return given.shape() == input.shape() && given.type() == input.type() && &on.device() == where &&
           (is_on_host || std::ranges::all_of(steps, [&](const step& one) {
              return !one.fused || one.fused->rounds == on.multiplies_in_bf16(one.fused->in, one.fused->out);
            }));
  }
  const step& last() const { return steps.back(); }
  bool is_last(const step& one) const { return &one == &steps.back(); }
  std::size_t place(const step& one) const { return static_cast<std::size_t>(&one - steps.data()); }

  pass_numbers numbers(const step& one, const pass_numbers& whole) const {
    return {.parameters = {whole.parameters.data() + one.first_parameter, one.parameters},
            .buffers = {whole.buffers.data() + one.first_buffer, one.buffers},
            .input = {one.input, input_of(one, whole), place(one) == 0 ? whole.input.type() : dtype::f32},
            .output = {output_of(one, whole), one.output},
            .saved = whole.saved.subspan(one.saved_at, one.saved)};
  }
  fused_linear::numbers fused_numbers(const step& one, const pass_numbers& whole) const {
    return {static_cast<const float*>(input_of(one, whole)), whole.parameters.data() + one.first_parameter,
            whole.saved.data() + one.saved_at};
  }
  const void* input_of(const step& one, const pass_numbers& whole) const {
    const std::size_t i = place(one);
    return i == 0 ? whole.input.data() : whole.saved.data() + steps[i - 1].output_at;
  }
  float* output_of(const step& one, const pass_numbers& whole) const {
    return is_last(one) ? whole.output.data() : whole.saved.data() + one.output_at;
  }
  float* grad_output(const step& one, const pass_numbers& whole) const { return whole.saved.data() + one.grad_at; }
};

}  // namespace troupe::nn
