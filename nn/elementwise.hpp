// Layers without parameters that handle each number separately. They accept any shape.

#pragma once

#include "nn/layer.hpp"

namespace troupe::nn {

struct relu_options {
  static constexpr const char* kind = "relu";
  bool operator==(const relu_options&) const = default;
};

/// y = max(x, 0); NaN stays NaN.
class relu final : public layer<relu_options> {
 public:
  using layer::layer;

  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
};

struct gelu_options {
  static constexpr const char* kind = "gelu";
  bool operator==(const gelu_options&) const = default;
};

/// y = x Phi(x), computed by the error function.
class gelu final : public layer<gelu_options> {
 public:
  using layer::layer;

  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
};

struct dropout_options {
  static constexpr const char* kind = "dropout";
  double rate = 0;

  static const option_fields<dropout_options>& fields();
  bool operator==(const dropout_options&) const = default;
};

/// In training passes, drops a random share `rate` of the numbers, and scales the others by 1 / (1 - rate).
class dropout final : public layer<dropout_options> {
 public:
  explicit dropout(const options& chosen);
  explicit dropout(double rate) : dropout(options{rate}) {}

  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  bool uses_key() const override { return chosen_.rate > 0; }
  bool is_identity() const override { return chosen_.rate == 0; }

 private:
  void apply(const pass& how, const tensor_view& input, const float* x, float* y) const;
};

struct flatten_options {
  static constexpr const char* kind = "flatten";
  bool operator==(const flatten_options&) const = default;
};

/// Flattens each sample, such as an image, to a vector.
class flatten final : public layer<flatten_options> {
 public:
  using layer::layer;

  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  bool is_identity() const override { return true; }
};

}  // namespace troupe::nn
