// Self-attention.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::nn {

struct multi_head_attention_options {
  static constexpr const char* kind = "multi_head_attention";
  std::size_t features = 0;  ///< 0 in job files: as many as the input has
  std::size_t heads = 0;
  bool causal = false;
  std::size_t steps = 0;  ///< 0: as many as the input has

  static const option_fields<multi_head_attention_options>& fields();
  void fit(const troupe::shape& sample);
  bool operator==(const multi_head_attention_options&) const = default;
};

/// PyTorch's MultiheadAttention of sequences [n, steps, features] to themselves, with batch_first: each head uses
/// features / heads columns as queries, keys and values, and computes softmax(queries keys^T / sqrt(their width))
/// values. `causal`: a step attends only to itself and earlier steps. Also accepts one-channel images, whose rows are
/// the steps, and, if `steps` is set, rows [n, steps x features].
class multi_head_attention final : public layer<multi_head_attention_options> {
 public:
  explicit multi_head_attention(const options& chosen);

  std::vector<parameter> parameters() const override;
  /// As in PyTorch: Xavier initialization for the input projection, zeros for biases.
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  /// Replaces queries, keys and values by the gradient of the projected input.
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::uint64_t multiply_adds(const tensor_view& input) const override;

 private:
  struct kept_numbers;

  kept_numbers kept_of(const tensor_view& input, const kernels::stream& on, float* saved) const;
  void split(kernels::stream& on, const kept_numbers& kept, const float* rows, std::size_t width, float* to) const;
  void join(kernels::stream& on, const kept_numbers& kept, const float* from, std::size_t width, float* rows) const;
  void backward_projected(const pass& how, const pass_numbers& numbers, const kept_numbers& kept,
                          const float* grad_y) const;
};

}  // namespace troupe::nn
