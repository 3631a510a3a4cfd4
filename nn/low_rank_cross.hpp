// The cross layers of DLRM-DCNv2.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::nn {

struct low_rank_cross_options {
  static constexpr const char* kind = "low_rank_cross";
  std::size_t features = 0;  ///< 0 in job files: as many as the input has
  std::size_t rank = 0;
  std::size_t layers = 0;

  static const option_fields<low_rank_cross_options>& fields();
  void fit(const troupe::shape& sample) { features = sample[0]; }
  bool operator==(const low_rank_cross_options&) const = default;
};

/// x_{k+1} = x_0 * (W_k V_k x_k + b_k) + x_k for each layer k, where x_0 is the input [n, features] (Wang et al.,
/// 2021).
class low_rank_cross final : public layer<low_rank_cross_options> {
 public:
  explicit low_rank_cross(const options& chosen);
  low_rank_cross(std::size_t features, std::size_t rank, std::size_t layers)
      : low_rank_cross(options{features, rank, layers}) {}

  std::vector<parameter> parameters() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::uint64_t multiply_adds(const tensor_view& input) const override;

 private:
  struct kept_numbers;

  kept_numbers kept_of(const pass_numbers& numbers, std::size_t k) const;
  void backward_input(const pass& how, const pass_numbers& numbers, const gradients& of) const;
};

}  // namespace troupe::nn
