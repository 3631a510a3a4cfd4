// The linear layer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::nn {

struct linear_options {
  static constexpr const char* kind = "linear";
  std::size_t in_features = 0;  ///< 0 in job files: as many as the input has
  std::size_t out_features = 0;
  bool bias = true;

  static const option_fields<linear_options>& fields();
  static option_fields<linear_options> remote_fields();
  void fit(const troupe::shape& sample) { in_features = sample[sample.dimensions() - 1]; }
  bool operator==(const linear_options&) const = default;
};

/// y = x W^T + b, or without b, for each sample, or each step of sequences. Initial parameters: uniform in
/// ±1/sqrt(in_features).
class linear final : public layer<linear_options> {
 public:
  /// Throw `error` if a size is 0.
  explicit linear(const options& chosen);
  linear(std::size_t in_features, std::size_t out_features, bool bias = true)
      : linear(options{in_features, out_features, bias}) {}

  std::vector<parameter> parameters() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::uint64_t multiply_adds(const tensor_view& input) const override;

 private:
  std::size_t rows_of(const tensor_view& input) const { return input.count() / chosen_.in_features; }
};

}  // namespace troupe::nn
