// Pooling of images [n, channels, height, width], by windows without padding.

#pragma once

#include <cstddef>

#include "nn/layer.hpp"

namespace troupe::nn {

/// `stride` 0: the kernel's size.
struct max_pool2d_options {
  static constexpr const char* kind = "max_pool2d";
  std::size_t kernel = 0;
  std::size_t stride = 0;

  static const option_fields<max_pool2d_options>& fields();
  bool operator==(const max_pool2d_options&) const = default;
};

struct avg_pool2d_options {
  static constexpr const char* kind = "avg_pool2d";
  std::size_t kernel = 0;
  std::size_t stride = 0;

  static const option_fields<avg_pool2d_options>& fields();
  bool operator==(const avg_pool2d_options&) const = default;
};

struct global_avg_pool2d_options {
  static constexpr const char* kind = "global_avg_pool2d";
  bool operator==(const global_avg_pool2d_options&) const = default;
};

/// The pooling layer with these options.
template <class Options>
class pool2d final : public layer<Options> {
 public:
  explicit pool2d(const Options& chosen = {});
  template <class O = Options>
  requires requires(O of) { of.kernel; }
  explicit pool2d(std::size_t kernel, std::size_t stride = 0) : pool2d(O{kernel, stride}) {}

  troupe::shape output(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
};

/// The largest number of each window.
using max_pool2d = pool2d<max_pool2d_options>;
/// The mean of each window.
using avg_pool2d = pool2d<avg_pool2d_options>;
/// The mean of each channel: [n, channels].
using global_avg_pool2d = pool2d<global_avg_pool2d_options>;

}  // namespace troupe::nn
