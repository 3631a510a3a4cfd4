// Shapes for the kernels for images and for normalization. Images are [batch, channels, height, width], without gaps.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Returns how many positions a window of `extent` has along `length`, with `padding` at both ends; 0 if it is larger.
constexpr std::size_t window_places(std::size_t length, std::size_t extent, std::size_t stride, std::size_t padding) {
  const std::size_t padded = length + 2 * padding;
  return padded < extent ? 0 : (padded - extent) / stride + 1;
}

/// A convolution of images with square kernels, as PyTorch's conv2d: weight [out_channels, in_channels / groups,
/// kernel, kernel], bias [out_channels]; pads with zeros. Each group convolves its share of the input's channels into
/// its share of the output's; a kernel's numbers are `dilation` pixels apart. Requires: `groups` divides both.
struct conv2d_shape {
  std::size_t in_channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t out_channels = 0;
  std::size_t kernel = 0;
  std::size_t stride = 1;
  std::size_t padding = 0;
  std::size_t dilation = 1;
  std::size_t groups = 1;

  std::size_t extent() const { return dilation * (kernel - 1) + 1; }  ///< of the kernel, in pixels
  std::size_t out_height() const { return window_places(height, extent(), stride, padding); }
  std::size_t out_width() const { return window_places(width, extent(), stride, padding); }
  std::size_t inputs() const { return in_channels * height * width; }                ///< of a sample
  std::size_t outputs() const { return out_channels * out_height() * out_width(); }  ///< of a sample
  std::size_t weights() const { return out_channels * (in_channels / groups) * kernel * kernel; }

  auto operator<=>(const conv2d_shape&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// Pooling of images by windows of height `kernel_height` and width `kernel_width`, without padding.
struct pool2d_shape {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t kernel_height = 0;
  std::size_t kernel_width = 0;
  std::size_t stride = 1;

  std::size_t out_height() const { return window_places(height, kernel_height, stride, 0); }
  std::size_t out_width() const { return window_places(width, kernel_width, stride, 0); }
  std::size_t inputs() const { return channels * height * width; }               ///< of a sample
  std::size_t outputs() const { return channels * out_height() * out_width(); }  ///< of a sample
};

/// Numbers x [batch, channels, area], for normalization by channels.
struct channels_shape {
  std::size_t batch = 0;
  std::size_t channels = 0;
  std::size_t area = 1;

  std::size_t count() const { return batch * channels * area; }
  std::size_t of_channel() const { return batch * area; }
};

/// Selects the numbers that dropout keeps in a matrix [rows, width]: the number at (row, column) is dropped if the
/// upper 32 bits of random_bits(random_bits(key, first_row + row), column) (random_bits.hpp) are below `threshold`.
struct dropout_mask {
  std::uint64_t key = 0;
  std::uint64_t first_row = 0;
  std::uint32_t threshold = 0;
  float scale = 1;  ///< for the kept numbers
};

}  // namespace troupe::kernels
