// Layer normalization.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::nn {

struct layer_norm_options {
  static constexpr const char* kind = "layer_norm";
  std::size_t features = 0;  ///< 0 in job files: as many as the input has
  double eps = 1e-5;

  static const option_fields<layer_norm_options>& fields();
  void fit(const troupe::shape& sample) { features = sample[sample.dimensions() - 1]; }
  bool operator==(const layer_norm_options&) const = default;
};

/// Normalizes each row of [n, features], or each step of sequences [n, steps, features].
class layer_norm final : public layer<layer_norm_options> {
 public:
  explicit layer_norm(const options& chosen);
  explicit layer_norm(std::size_t features, double eps = 1e-5) : layer_norm(options{features, eps}) {}

  std::vector<parameter> parameters() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;

 private:
  std::size_t rows_of(const tensor_view& input) const { return input.count() / chosen_.features; }
};

}  // namespace troupe::nn
