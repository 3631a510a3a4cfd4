// The convolution of images.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::kernels {
struct conv2d_shape;
}

namespace troupe::nn {

/// Options, as in PyTorch's Conv2d.
struct conv2d_options {
  static constexpr const char* kind = "conv2d";
  std::size_t in_channels = 0;  ///< 0 in job files: as many as the input has
  std::size_t out_channels = 0;
  std::size_t kernel = 0;
  std::size_t stride = 1;
  std::size_t padding = 0;
  std::size_t dilation = 1;
  std::size_t groups = 1;
  bool bias = true;

  static const option_fields<conv2d_options>& fields();
  void fit(const troupe::shape& sample) { in_channels = sample[0]; }
  bool operator==(const conv2d_options&) const = default;
};

/// Convolves [n, channels, height, width] with square kernels, whose numbers are `dilation` pixels apart; pads with
/// zeros. With `groups`, each group convolves its share of the channels separately.
class conv2d final : public layer<conv2d_options> {
 public:
  explicit conv2d(const options& chosen);

  std::vector<parameter> parameters() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::uint64_t multiply_adds(const tensor_view& input) const override;

 private:
  kernels::conv2d_shape shape_of(const troupe::shape& input) const;
};

}  // namespace troupe::nn
