// The layers that Troupe has.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/module.hpp"

namespace troupe::nn {

/// y = x W^T + b. Initial parameters: uniform in ±1/sqrt(in_features).
class linear final : public module {
 public:
  /// Throws `error` if a size is 0.
  linear(std::size_t in_features, std::size_t out_features);

  std::string type() const override { return "linear"; }
  std::vector<parameter> parameters() const override { return {{"weight", {out_, in_}}, {"bias", {out_}}}; }
  void initialize(std::uint64_t key, float* parameters, float* buffers) const override;
  troupe::shape output(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  bool runs_on_devices() const override { return true; }

 private:
  std::size_t in_;
  std::size_t out_;
};

/// y = max(x, 0), of any shape; NaN stays NaN.
class relu final : public module {
 public:
  std::string type() const override { return "relu"; }
  /// Throws `error` unless it is float32.
  troupe::shape output(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  bool runs_on_devices() const override { return true; }
};

/// How an embedding bag makes one row of several.
enum class pooling : std::uint8_t { sum, mean, max };

/// How the trainers' gradients of a remote module become one.
enum class reduction : std::uint8_t { sum, mean };

/// A table of rows, of which bags are looked up and pooled. It lives on a server: see `remote_module<embedding_bag>`.
struct embedding_bag {
  /// As the arguments of PyTorch's EmbeddingBag.
  struct options {
    std::int64_t num_embeddings = 0;
    std::size_t embedding_dim = 0;
    pooling mode = pooling::mean;
    reduction reduce = reduction::sum;
  };
};

}  // namespace troupe::nn
