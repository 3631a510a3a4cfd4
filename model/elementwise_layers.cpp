// Layers without parameters that look at each number alone.

#include <cmath>

#include "model/layers.hpp"

namespace troupe::model {

namespace {

void copy_numbers(kernels::stream& on, std::size_t count, const float* from, float* to) {
  on.copy(from, to, count * sizeof(float));
}

class relu_layer final : public layer {
 public:
  using layer::layer;

  std::string kind() const override { return to_string(layer_kind::relu); }

  void forward(const pass& how, const numbers& of) const override {
    how.on.relu_forward(how.size * count_of(in()), of.input, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    // Input and output are positive at the same places.
    if (grad_input != nullptr) how.on.relu_backward(how.size * count_of(in()), of.input, grad_output, grad_input);
  }
};

class gelu_layer final : public layer {
 public:
  using layer::layer;

  std::string kind() const override { return to_string(layer_kind::gelu); }

  void forward(const pass& how, const numbers& of) const override {
    how.on.gelu_forward(how.size * count_of(in()), of.input, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    if (grad_input != nullptr) how.on.gelu_backward(how.size * count_of(in()), of.input, grad_output, grad_input);
  }
};

// Only another shape.
class flatten_layer final : public layer {
 public:
  using layer::layer;

  std::string kind() const override { return to_string(layer_kind::flatten); }

  void forward(const pass& how, const numbers& of) const override {
    copy_numbers(how.on, how.size * count_of(in()), of.input, of.output);
  }

  void backward_input(const pass& how, const numbers& /*of*/, const float* grad_output,
                      float* grad_input) const override {
    if (grad_input != nullptr) copy_numbers(how.on, how.size * count_of(in()), grad_output, grad_input);
  }
};

class dropout_layer final : public layer {
 public:
  dropout_layer(const sample_shape& in, double rate)
      : layer(in, in),
        threshold_(static_cast<std::uint32_t>(std::floor(rate * 0x1p32))),
        scale_(static_cast<float>(1 / (1 - rate))),
        drops_(rate > 0) {}

  std::string kind() const override { return to_string(layer_kind::dropout); }
  bool uses_key() const override { return drops_; }

  void forward(const pass& how, const numbers& of) const override { apply(how, of.input, of.output); }

  void backward_input(const pass& how, const numbers& /*of*/, const float* grad_output,
                      float* grad_input) const override {
    if (grad_input != nullptr) apply(how, grad_output, grad_input);
  }

 private:
  void apply(const pass& how, const float* x, float* y) const {
    const std::size_t width = count_of(in());
    if (!drops_ || !how.training) return copy_numbers(how.on, how.size * width, x, y);
    how.on.dropout({how.key, how.first_sample, threshold_, scale_}, how.size, width, x, y);
  }

  std::uint32_t threshold_;
  float scale_;
  bool drops_;
};

}  // namespace

layer_ptr make_relu(const sample_shape& in) { return std::make_unique<relu_layer>(in, in); }

layer_ptr make_gelu(const sample_shape& in) { return std::make_unique<gelu_layer>(in, in); }

layer_ptr make_flatten(const sample_shape& in) {
  return std::make_unique<flatten_layer>(in, sample_shape{count_of(in)});
}

layer_ptr make_dropout(const layer_spec& spec, const sample_shape& in) {
  return std::make_unique<dropout_layer>(in, spec.rate);
}

}  // namespace troupe::model
