// Layers of matrix products: linear, and low-rank cross layers.

#include <fmt/format.h>

#include <algorithm>

#include "model/layers.hpp"

namespace troupe::model {

namespace {

class linear_layer : public layer {
 public:
  linear_layer(const sample_shape& in, std::size_t out, bool has_bias, kernels::activation then)
      : layer(in, {out}), in_(in[0]), out_(out), has_bias_(has_bias), then_(then) {}

  std::string kind() const override { return to_string(layer_kind::linear); }

  std::vector<named_parameter> parameters() const override {
    std::vector<named_parameter> all{{"weight", {out_, in_}}};
    if (has_bias_) all.push_back({"bias", {out_}, out_ * in_});
    return all;
  }

  void initialize(std::uint64_t key, float* parameters, float* /*buffers*/) const override {
    fill_uniform(key, 0, out_ * in_ + (has_bias_ ? out_ : 0), in_, parameters);
  }

  std::uint64_t multiply_adds() const override { return std::uint64_t{in_} * out_; }

  void forward(const pass& how, const numbers& of) const override {
    const float* const bias = has_bias_ ? of.parameters + out_ * in_ : nullptr;
    how.on.linear_forward(how.size, in_, out_, of.input, of.parameters, bias, then_, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    if (grad_input != nullptr)
      how.on.linear_backward_input(how.size, in_, out_, of.parameters, grad_output, grad_input);
  }

  void backward_parameters(const pass& how, const numbers& of, const float* grad_output,
                           float* grad_parameters) const final {
    float* const grad_bias = has_bias_ ? grad_parameters + out_ * in_ : nullptr;
    how.on.linear_backward_parameters(how.size, in_, out_, of.input, grad_output, grad_parameters, grad_bias);
  }

 protected:
  std::size_t in_;
  std::size_t out_;
  bool has_bias_;
  kernels::activation then_;
};

/// A slice's outputs of a linear layer: the gradient of the input is the sum over all slices.
class linear_outputs final : public linear_layer {
 public:
  using linear_layer::linear_layer;

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    if (grad_input == nullptr) return;
    linear_layer::backward_input(how, of, grad_output, how.slices->share(how.size, in_));
    how.slices->sum(grad_input);
  }
};

/// A linear layer that takes a slice's inputs: the output is the sum over all slices, and the bias.
class linear_inputs final : public linear_layer {
 public:
  using linear_layer::linear_layer;

  void forward(const pass& how, const numbers& of) const override {
    how.on.linear_forward(how.size, in_, out_, of.input, of.parameters, nullptr, kernels::activation::none,
                          how.slices->share(how.size, out_));
    how.slices->sum(of.output);
    if (has_bias_) how.on.add_columns(how.size, out_, {of.parameters + out_ * in_, 0}, {of.output, out_});
  }
};

/// x_{k+1} = x_0 * (W_k V_k x_k + b_k) + x_k for each layer k. Saves of each layer the products and their gradients.
class low_rank_cross_layer final : public layer {
 public:
  low_rank_cross_layer(const sample_shape& in, std::size_t rank, std::size_t layers)
      : layer(in, in), width_(in[0]), rank_(rank), layers_(layers) {}

  std::string kind() const override { return to_string(layer_kind::low_rank_cross); }

  std::vector<named_parameter> parameters() const override {
    std::vector<named_parameter> all;
    for (std::size_t k = 0; k < layers_; ++k) {
      const std::size_t first = k * of_layer();
      all.push_back({fmt::format("v.{}", k), {rank_, width_}, first});
      all.push_back({fmt::format("w.{}", k), {width_, rank_}, first + w_first()});
      all.push_back({fmt::format("b.{}", k), {width_}, first + b_first()});
    }
    return all;
  }

  void initialize(std::uint64_t key, float* parameters, float* /*buffers*/) const override {
    for (std::size_t k = 0; k < layers_; ++k) {
      const std::size_t first = k * of_layer();
      fill_uniform(key, first, w_first(), width_, parameters + first);
      fill_uniform(key, first + w_first(), w_first(), rank_, parameters + first + w_first());
      std::fill_n(parameters + first + b_first(), width_, 0.0F);
    }
  }

  std::size_t saved(std::size_t size) const override {
    return size * (layers_ * (3 * width_ + 2 * rank_) + 2 * width_);
  }
  std::uint64_t multiply_adds() const override { return std::uint64_t{2} * width_ * rank_ * layers_; }

  void forward(const pass& how, const numbers& of) const override {
    const std::size_t count = how.size * width_;
    const float* x = of.input;
    for (std::size_t k = 0; k < layers_; ++k) {
      const auto kept = kept_of(how, of, k);
      const float* const p = of.parameters + k * of_layer();
      float* const next = k + 1 < layers_ ? kept_of(how, of, k + 1).x : of.output;
      how.on.linear_forward(how.size, width_, rank_, x, p, nullptr, kernels::activation::none, kept.inner);
      how.on.linear_forward(how.size, rank_, width_, kept.inner, p + w_first(), p + b_first(),
                            kernels::activation::none, kept.outer);
      how.on.multiply_add(count, of.input, kept.outer, x, next);
      x = next;
    }
  }

  // `grad`: of x_{k+1}. `grad_input` first sums up what comes to x_0 as a factor.
  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    const std::size_t count = how.size * width_;
    float* const grad = of.saved + how.size * layers_ * (3 * width_ + 2 * rank_);
    float* const step = grad + count;
    how.on.copy(grad_output, grad, count * sizeof(float));
    for (std::size_t k = layers_; k-- > 0;) {
      const auto kept = kept_of(how, of, k);
      const float* const p = of.parameters + k * of_layer();
      how.on.multiply_add(count, grad, of.input, nullptr, kept.grad_outer);
      if (grad_input != nullptr)
        how.on.multiply_add(count, grad, kept.outer, k + 1 < layers_ ? grad_input : nullptr, grad_input);
      how.on.linear_backward_input(how.size, rank_, width_, p + w_first(), kept.grad_outer, kept.grad_inner);
      if (k == 0 && grad_input == nullptr) return;
      how.on.linear_backward_input(how.size, width_, rank_, p, kept.grad_inner, step);
      how.on.add_columns(how.size, width_, {step, width_}, {grad, width_});
    }
    how.on.add_columns(how.size, width_, {grad, width_}, {grad_input, width_});
  }

  void backward_parameters(const pass& how, const numbers& of, const float* /*grad_output*/,
                           float* grad_parameters) const override {
    for (std::size_t k = 0; k < layers_; ++k) {
      const auto kept = kept_of(how, of, k);
      float* const grad = grad_parameters + k * of_layer();
      const float* const x = k > 0 ? kept.x : of.input;
      how.on.linear_backward_parameters(how.size, width_, rank_, x, kept.grad_inner, grad, nullptr);
      how.on.linear_backward_parameters(how.size, rank_, width_, kept.inner, kept.grad_outer, grad + w_first(),
                                        grad + b_first());
    }
  }

 private:
  // What is saved of a layer.
  struct kept_numbers {
    float* x;           // x_k [size, width]; not used of layer 0, whose x is the input
    float* inner;       // V x [size, rank]
    float* outer;       // W V x + b [size, width]
    float* grad_inner;  // their gradients
    float* grad_outer;
  };

  kept_numbers kept_of(const pass& how, const numbers& of, std::size_t k) const {
    const std::size_t wide = how.size * width_;
    const std::size_t narrow = how.size * rank_;
    float* const first = of.saved + k * (3 * wide + 2 * narrow);
    return {first, first + 3 * wide, first + wide, first + 3 * wide + narrow, first + 2 * wide};
  }

  std::size_t w_first() const { return rank_ * width_; }
  std::size_t b_first() const { return 2 * rank_ * width_; }
  std::size_t of_layer() const { return b_first() + width_; }

  std::size_t width_;
  std::size_t rank_;
  std::size_t layers_;
};

}  // namespace

layer_ptr make_linear(const layer_spec& spec, const sample_shape& in, kernels::activation then) {
  return std::make_unique<linear_layer>(in, spec.out, spec.bias, then);
}

layer_ptr make_linear_slice(const layer_spec& spec, const sample_shape& in, layer_cut cut, kernels::activation then) {
  if (cut == layer_cut::outputs) return std::make_unique<linear_outputs>(in, spec.out, spec.bias, then);
  return std::make_unique<linear_inputs>(in, spec.out, spec.bias, then);
}

layer_ptr make_low_rank_cross(const layer_spec& spec, const sample_shape& in) {
  return std::make_unique<low_rank_cross_layer>(in, spec.rank, spec.layers);
}

}  // namespace troupe::model
