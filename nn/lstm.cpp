#include "nn/lstm.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

namespace {

// The indices of the parameters.
enum : std::size_t { weight_ih, weight_hh, bias_ih, bias_hh };

/// A step's hidden states in the outputs [size, steps or 1, hidden]; null if they are not in there.
template <class T>
kernels::row_matrix<T> step_of(T* outputs, std::size_t steps, std::size_t hidden, bool last, std::size_t t) {
  if (!last) return {outputs + t * hidden, steps * hidden};
  return {t + 1 == steps ? outputs : nullptr, hidden};
}

}  // namespace

const option_fields<lstm_options>& lstm_options::fields() {
  static const auto all = option_fields<lstm_options>()
                              .whole("hidden", &lstm_options::hidden, 1, layer_width_max)
                              .whole("steps", &lstm_options::steps, 1, layer_width_max, false)
                              .truth("last", &lstm_options::last);
  return all;
}

void lstm_options::fit(const troupe::shape& sample) {
  const auto sequence = find_sequence(sample, steps);
  features = sequence ? (*sequence)[1] : 1;  // `output` reports why
}

lstm::lstm(const options& chosen) : layer(checked(chosen)) { check_length(options::kind, "features", chosen.features); }

std::vector<parameter> lstm::parameters() const {
  return {{"weight_ih_l0", {gates(), chosen_.features}},
          {"weight_hh_l0", {gates(), chosen_.hidden}},
          {"bias_ih_l0", {gates()}},
          {"bias_hh_l0", {gates()}}};
}

void lstm::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                      const tensor_list<float>& /*buffers*/) const {
  fill_uniform(key, 0, count_of(this->parameters()), chosen_.hidden, parameters.data());
}

troupe::shape lstm::output(const tensor_view& input) const {
  const std::size_t steps = sequence_of(*this, input, chosen_.steps, chosen_.features)[0];
  if (!chosen_.last && steps > sample_max / chosen_.hidden)
    refuse(*this, fmt::format("its output of {} x {} has more than {} numbers a sample; take a smaller hidden or last "
                              "= true",
                              steps, chosen_.hidden, sample_max));
  if (chosen_.last) return {input.shape()[0], chosen_.hidden};
  return {input.shape()[0], steps, chosen_.hidden};
}

std::size_t lstm::saved(const tensor_view& input, const kernels::stream& /*on*/) const {
  const std::size_t steps = steps_of(input);
  return input.shape()[0] * (steps * (2 * chosen_.features + gates()) + 2 * (steps + 1) * chosen_.hidden + gates());
}

troupe::shape lstm::state(const tensor_view& input) const { return {2, output(input)[0], chosen_.hidden}; }

/// The saved numbers: step by step, each with all samples. So a step's samples form a matrix, and the products of all
/// steps that do not depend on each other are one.
struct lstm::kept_numbers {
  float* x;       // [steps, size, in]
  float* grad_x;  // [steps, size, in]
  float* gates;   // [steps, size, 4 hidden]; after the backward pass, the gradients of their sums
  float* h;       // [1 + steps, size, hidden], beginning with the initial state
  float* c;
  float* step;  // of one step [size, 4 hidden]: products of h; in the backward pass, the gradients of h and c
};

lstm::kept_numbers lstm::kept_of(const pass_numbers& numbers) const {
  const std::size_t steps = steps_of(numbers.input);
  float* saved = numbers.saved.data();
  const auto next = [&](std::size_t of_sample) {
    return std::exchange(saved, saved + numbers.input.shape()[0] * of_sample);
  };
  kept_numbers kept{};
  kept.x = next(steps * chosen_.features);
  kept.grad_x = next(steps * chosen_.features);
  kept.gates = next(steps * gates());
  kept.h = next((1 + steps) * chosen_.hidden);
  kept.c = next((1 + steps) * chosen_.hidden);
  kept.step = next(gates());
  return kept;
}

void lstm::begin(const pass& how, const pass_numbers& numbers, const kept_numbers& kept) const {
  const std::size_t wide = numbers.input.shape()[0] * chosen_.hidden;
  if (numbers.state) {
    how.stream.copy(numbers.state.data(), kept.h, wide * sizeof(float));
    how.stream.copy(numbers.state.data() + wide, kept.c, wide * sizeof(float));
  } else {
    how.stream.fill(wide, 0, kept.h);
    how.stream.fill(wide, 0, kept.c);
  }
}

void lstm::forward(const pass& how, const pass_numbers& numbers) const {
  const auto [in, hidden, given_steps, last] = chosen_;
  const std::size_t steps = steps_of(numbers.input);
  const std::size_t size = numbers.input.shape()[0];
  const std::size_t wide = size * hidden;
  const auto parameters = numbers.parameters;
  const float* const x = numbers.input.as<float>().data();
  const kept_numbers kept = kept_of(numbers);
  begin(how, numbers, kept);
  for (std::size_t t = 0; t < steps; ++t)
    how.stream.copy_columns(size, in, {x + t * in, steps * in}, {kept.x + t * size * in, in});
  how.stream.linear_forward(steps * size, in, gates(), kept.x, parameters[weight_ih].data(), parameters[bias_ih].data(),
                            kernels::activation::none, kept.gates);
  for (std::size_t t = 0; t < steps; ++t) {
    how.stream.linear_forward(size, hidden, gates(), kept.h + t * wide, parameters[weight_hh].data(),
                              parameters[bias_hh].data(), kernels::activation::none, kept.step);
    how.stream.lstm_forward(size, hidden, kept.step, kept.c + t * wide, kept.gates + 4 * t * wide,
                            kept.c + (t + 1) * wide, kept.h + (t + 1) * wide);
    if (const auto to = step_of(numbers.output.data(), steps, hidden, last, t); to.data != nullptr)
      how.stream.copy_columns(size, hidden, {kept.h + (t + 1) * wide, hidden}, to);
  }
  if (!numbers.next_state) return;
  how.stream.copy(kept.h + steps * wide, numbers.next_state.data(), wide * sizeof(float));
  how.stream.copy(kept.c + steps * wide, numbers.next_state.data() + wide, wide * sizeof(float));
}

void lstm::backward_steps(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  const auto [in, hidden, given_steps, last] = chosen_;
  const std::size_t steps = steps_of(numbers.input);
  const std::size_t size = numbers.input.shape()[0];
  const std::size_t wide = size * hidden;
  const kept_numbers kept = kept_of(numbers);
  float* const grad_h = kept.step;
  float* const grad_c = kept.step + wide;
  how.stream.fill(2 * wide, 0, kept.step);
  for (std::size_t t = steps; t-- > 0;) {
    if (t + 1 < steps)
      how.stream.linear_backward_input(size, hidden, gates(), numbers.parameters[weight_hh].data(),
                                       kept.gates + 4 * (t + 1) * wide, grad_h);
    if (const auto from = step_of(of.output.data(), steps, hidden, last, t); from.data != nullptr)
      how.stream.add_columns(size, hidden, from, {grad_h, hidden});
    how.stream.lstm_backward(size, hidden, kept.c + t * wide, kept.c + (t + 1) * wide, grad_h, grad_c,
                             kept.gates + 4 * t * wide);
  }
  if (!of.input) return;
  how.stream.linear_backward_input(steps * size, in, gates(), numbers.parameters[weight_ih].data(), kept.gates,
                                   kept.grad_x);
  for (std::size_t t = 0; t < steps; ++t)
    how.stream.copy_columns(size, in, {kept.grad_x + t * size * in, in}, {of.input.data() + t * in, steps * in});
}

void lstm::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (!how.is_second_backward) backward_steps(how, numbers, of);
  if (!of.parameters) return;
  const kept_numbers kept = kept_of(numbers);
  const std::size_t rows = steps_of(numbers.input) * numbers.input.shape()[0];
  const auto grad = of.parameters;
  how.stream.linear_backward_parameters(rows, chosen_.features, gates(), kept.x, kept.gates, grad[weight_ih].data(),
                                        grad[bias_ih].data());
  how.stream.linear_backward_parameters(rows, chosen_.hidden, gates(), kept.h, kept.gates, grad[weight_hh].data(),
                                        nullptr);
  how.stream.copy(grad[bias_ih].data(), grad[bias_hh].data(),
                  gates() * sizeof(float));  // both biases are added to the same sums
}

std::uint64_t lstm::multiply_adds(const tensor_view& input) const {
  return std::uint64_t{input.shape()[0]} * steps_of(input) * gates() * (chosen_.features + chosen_.hidden);
}

}  // namespace troupe::nn
