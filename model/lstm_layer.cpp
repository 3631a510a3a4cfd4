// An LSTM through the steps of a sequence.

#include <algorithm>
#include <optional>

#include "model/layers.hpp"

namespace troupe::model {

namespace {

/// PyTorch's with batch_first and one layer. Computes and saves step by step, each of all samples: so a step's samples
/// are a matrix, and the products of all steps that need not wait for each other are one.
class lstm_layer final : public layer {
 public:
  lstm_layer(const sample_shape& in, const sample_shape& sequence, std::size_t hidden, bool last)
      : layer(in, last ? sample_shape{hidden} : sample_shape{sequence[0], hidden}),
        steps_(sequence[0]),
        in_(sequence[1]),
        hidden_(hidden),
        last_(last) {}

  std::string kind() const override { return to_string(layer_kind::lstm); }

  std::vector<named_parameter> parameters() const override {
    return {{"weight_ih_l0", {gates(), in_}, 0},
            {"weight_hh_l0", {gates(), hidden_}, hh_first()},
            {"bias_ih_l0", {gates()}, bias_first()},
            {"bias_hh_l0", {gates()}, bias_first() + gates()}};
  }

  void initialize(std::uint64_t key, float* parameters, float* /*buffers*/) const override {
    fill_uniform(key, 0, bias_first() + 2 * gates(), hidden_, parameters);
  }

  std::size_t saved(std::size_t size) const override {
    return size * (steps_ * (2 * in_ + gates()) + 2 * (steps_ + 1) * hidden_ + gates());
  }

  std::uint64_t multiply_adds() const override { return std::uint64_t{steps_} * gates() * (in_ + hidden_); }

  void forward(const pass& how, const numbers& of) const override {
    const kept_numbers kept = kept_of(how.size, of.saved);
    const std::size_t wide = how.size * hidden_;
    begin(how, of.state, kept);
    for (std::size_t t = 0; t < steps_; ++t)
      how.on.copy_columns(how.size, in_, {of.input + t * in_, steps_ * in_}, {kept.x + t * how.size * in_, in_});
    how.on.linear_forward(steps_ * how.size, in_, gates(), kept.x, of.parameters, of.parameters + bias_first(),
                          kernels::activation::none, kept.gates);
    for (std::size_t t = 0; t < steps_; ++t) {
      how.on.linear_forward(how.size, hidden_, gates(), kept.h + t * wide, of.parameters + hh_first(),
                            of.parameters + bias_first() + gates(), kernels::activation::none, kept.step);
      how.on.lstm_forward(how.size, hidden_, kept.step, kept.c + t * wide, kept.gates + 4 * t * wide,
                          kept.c + (t + 1) * wide, kept.h + (t + 1) * wide);
      if (const auto to = step_of(of.output, t); to.data != nullptr)
        how.on.copy_columns(how.size, hidden_, {kept.h + (t + 1) * wide, hidden_}, to);
    }
    if (of.next_state == nullptr) return;
    how.on.copy(kept.h + steps_ * wide, of.next_state, wide * sizeof(float));
    how.on.copy(kept.c + steps_ * wide, of.next_state + wide, wide * sizeof(float));
  }

  /// Leaves the gradients of the gates' sums in place of the gates.
  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    const kept_numbers kept = kept_of(how.size, of.saved);
    const std::size_t wide = how.size * hidden_;
    float* const grad_h = kept.step;
    float* const grad_c = kept.step + wide;
    how.on.fill(2 * wide, 0, kept.step);
    for (std::size_t t = steps_; t-- > 0;) {
      if (t + 1 < steps_)
        how.on.linear_backward_input(how.size, hidden_, gates(), of.parameters + hh_first(),
                                     kept.gates + 4 * (t + 1) * wide, grad_h);
      if (const auto from = step_of(grad_output, t); from.data != nullptr)
        how.on.add_columns(how.size, hidden_, from, {grad_h, hidden_});
      how.on.lstm_backward(how.size, hidden_, kept.c + t * wide, kept.c + (t + 1) * wide, grad_h, grad_c,
                           kept.gates + 4 * t * wide);
    }
    if (grad_input == nullptr) return;
    how.on.linear_backward_input(steps_ * how.size, in_, gates(), of.parameters, kept.gates, kept.grad_x);
    for (std::size_t t = 0; t < steps_; ++t)
      how.on.copy_columns(how.size, in_, {kept.grad_x + t * how.size * in_, in_}, {grad_input + t * in_, steps_ * in_});
  }

  void backward_parameters(const pass& how, const numbers& of, const float* /*grad_output*/,
                           float* grad_parameters) const override {
    const kept_numbers kept = kept_of(how.size, of.saved);
    float* const grad_bias = grad_parameters + bias_first();
    how.on.linear_backward_parameters(steps_ * how.size, in_, gates(), kept.x, kept.gates, grad_parameters, grad_bias);
    how.on.linear_backward_parameters(steps_ * how.size, hidden_, gates(), kept.h, kept.gates,
                                      grad_parameters + hh_first(), nullptr);
    how.on.copy(grad_bias, grad_bias + gates(), gates() * sizeof(float));  // both are added to the same sums
  }

 private:
  // What is saved, the steps one after the other, of each all samples.
  struct kept_numbers {
    float* x;       // [steps, size, in]
    float* grad_x;  // likewise
    float* gates;   // [steps, size, 4 hidden]; after the way back, the gradients of their sums
    float* h;       // [1 + steps, size, hidden], the state before the first step first
    float* c;
    float* step;  // of one step [size, 4 hidden]: products of h; on the way back, the gradients of h and c
  };

  kept_numbers kept_of(std::size_t size, float* saved) const {
    const auto next = [&](std::size_t of_sample) { return std::exchange(saved, saved + size * of_sample); };
    kept_numbers kept{};
    kept.x = next(steps_ * in_);
    kept.grad_x = next(steps_ * in_);
    kept.gates = next(steps_ * gates());
    kept.h = next((1 + steps_) * hidden_);
    kept.c = next((1 + steps_) * hidden_);
    kept.step = next(gates());
    return kept;
  }

  void begin(const pass& how, const float* state, const kept_numbers& kept) const {
    const std::size_t wide = how.size * hidden_;
    if (state == nullptr) {
      how.on.fill(wide, 0, kept.h);
      how.on.fill(wide, 0, kept.c);
    } else {
      how.on.copy(state, kept.h, wide * sizeof(float));
      how.on.copy(state + wide, kept.c, wide * sizeof(float));
    }
  }

  /// A step's hidden states among the outputs; null: they are not there.
  template <class Number>
  kernels::row_matrix<Number> step_of(Number* outputs, std::size_t t) const {
    if (!last_) return {outputs + t * hidden_, steps_ * hidden_};
    return {t + 1 == steps_ ? outputs : nullptr, hidden_};
  }

  std::size_t gates() const { return 4 * hidden_; }
  std::size_t hh_first() const { return gates() * in_; }
  std::size_t bias_first() const { return gates() * (in_ + hidden_); }

  std::size_t steps_;
  std::size_t in_;
  std::size_t hidden_;
  bool last_;
};

}  // namespace

std::optional<sample_shape> sequence_of(const layer_spec& spec, const sample_shape& in) {
  const std::size_t numbers = count_of(in);
  if (in.size() == 1 ? spec.steps == 0 || numbers % spec.steps != 0 : in.size() == 3 && in[0] != 1) return std::nullopt;
  const std::size_t steps = in.size() == 1 ? spec.steps : in[in.size() - 2];
  if (spec.steps != 0 && spec.steps != steps) return std::nullopt;
  return sample_shape{steps, numbers / steps};
}

layer_ptr make_lstm(const layer_spec& spec, const sample_shape& in) {
  return std::make_unique<lstm_layer>(in, *sequence_of(spec, in), spec.hidden, spec.last);
}

}  // namespace troupe::model
