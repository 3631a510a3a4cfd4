// Pooling of images, a plane [height, width] at a time.

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/cpu_stream.hpp"

namespace troupe::kernels {
namespace {

/// Whether `value` replaces `largest`: a NaN does, and among equal numbers the first stays. Branchless, as branches
/// would be unpredictable.
bool wins(float value, float largest) {
  return static_cast<int>(value > largest) | static_cast<int>(value != value);  // NaN
}

/// Whether the image is the only window, without gaps.
bool is_whole_image(const pool2d_shape& s) { return s.kernel_height == s.height && s.kernel_width == s.width; }

/// Reduces `count` > 0 numbers: lane j reduces x[j], x[j+16], ..., then the lanes are reduced in order. Compilers
/// vectorize the lanes.
template <class Take>
float reduce(std::size_t count, const float* x, const Take& take) {
  constexpr std::size_t lanes = 16;
  if (count < lanes) {
    float result = x[0];
    for (std::size_t i = 1; i < count; ++i) result = take(result, x[i]);
    return result;
  }
  float lane[lanes];
  std::copy_n(x, lanes, lane);
  std::size_t i = lanes;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) lane[j] = take(lane[j], x[i + j]);
  for (std::size_t j = 0; i + j < count; ++j) lane[j] = take(lane[j], x[i + j]);
  float result = lane[0];
  for (std::size_t j = 1; j < lanes; ++j) result = take(result, lane[j]);
  return result;
}

/// Sets each y to its window's numbers, reduced in the order of rows and columns.
template <class Take>
void pool(const pool2d_shape& s, std::size_t batch, const float* x, float* y, const Take& take) {
  const std::size_t area = s.height * s.width;
  const std::size_t out_width = s.out_width();
  for (std::size_t plane = 0; plane < batch * s.channels; ++plane, x += area) {
    if (is_whole_image(s)) {
      *y++ = reduce(area, x, take);
      continue;
    }
    for (std::size_t row = 0; row < s.out_height(); ++row, y += out_width) {
      for (std::size_t i = 0; i < s.kernel_height; ++i) {
        for (std::size_t j = 0; j < s.kernel_width; ++j) {
          const float* const from = x + (row * s.stride + i) * s.width + j;
          if (i == 0 && j == 0)
            for (std::size_t c = 0; c < out_width; ++c) y[c] = from[c * s.stride];
          else
            for (std::size_t c = 0; c < out_width; ++c) y[c] = take(y[c], from[c * s.stride]);
        }
      }
    }
  }
}

/// How many windows of a row are searched at a time.
constexpr std::size_t windows_of_block = 64;
using largest_places = std::uint32_t[windows_of_block];

/// Sets places[c] to the offset of window c's largest number from its upper left number. Window 0 begins at x. Visits
/// all windows once for each number of a window: branchless, so that compilers vectorize it.
void find_largest(const pool2d_shape& s, const float* x, std::size_t count, largest_places& places) {
  float largest[windows_of_block];
  for (std::size_t c = 0; c < count; ++c) largest[c] = x[c * s.stride];
  std::fill_n(places, count, 0U);
  for (std::size_t i = 0; i < s.kernel_height; ++i) {
    for (std::size_t j = 0; j < s.kernel_width; ++j) {
      const std::size_t place = i * s.width + j;
      for (std::size_t c = 0; c < count; ++c) {
        const float value = x[place + c * s.stride];
        const bool is_new = static_cast<int>(wins(value, largest[c])) & static_cast<int>(largest[c] == largest[c]);
        places[c] = is_new ? static_cast<std::uint32_t>(place) : places[c];
        largest[c] = is_new ? value : largest[c];
      }
    }
  }
}

/// Calls `window(from, grad)` for each window, in order, with the index of its upper left number and its gradient.
template <class Window>
void for_each_window(const pool2d_shape& s, std::size_t batch, const float* grad_y, const Window& window) {
  std::size_t plane_at = 0;
  for (std::size_t plane = 0; plane < batch * s.channels; ++plane, plane_at += s.height * s.width)
    for (std::size_t row = 0; row < s.out_height(); ++row)
      for (std::size_t column = 0; column < s.out_width(); ++column)
        window(plane_at + row * s.stride * s.width + column * s.stride, *grad_y++);
}

float window_numbers(const pool2d_shape& s) { return static_cast<float>(s.kernel_height * s.kernel_width); }

}  // namespace

void cpu_stream::max_pool2d_forward(const pool2d_shape& shape, std::size_t batch, const float* x, float* y) {
  pool(shape, batch, x, y, [](float largest, float value) { return wins(value, largest) ? value : largest; });
}

void cpu_stream::max_pool2d_backward(const pool2d_shape& shape, std::size_t batch, const float* x, const float* grad_y,
                                     float* grad_x) {
  std::fill_n(grad_x, batch * shape.inputs(), 0.0F);
  const std::size_t out_width = shape.out_width();
  for (std::size_t plane = 0; plane < batch * shape.channels; ++plane) {
    for (std::size_t row = 0; row < shape.out_height(); ++row, grad_y += out_width) {
      for (std::size_t first = 0; first < out_width; first += windows_of_block) {
        const std::size_t count = std::min(windows_of_block, out_width - first);
        const std::size_t from = row * shape.stride * shape.width + first * shape.stride;
        largest_places places;
        find_largest(shape, x + from, count, places);
        for (std::size_t c = 0; c < count; ++c) grad_x[from + c * shape.stride + places[c]] += grad_y[first + c];
      }
    }
    x += shape.height * shape.width;
    grad_x += shape.height * shape.width;
  }
}

void cpu_stream::avg_pool2d_forward(const pool2d_shape& shape, std::size_t batch, const float* x, float* y) {
  pool(shape, batch, x, y, [](float sum, float value) { return sum + value; });
  for (std::size_t i = 0; i < batch * shape.outputs(); ++i) y[i] /= window_numbers(shape);
}

void cpu_stream::avg_pool2d_backward(const pool2d_shape& shape, std::size_t batch, const float* grad_y, float* grad_x) {
  std::fill_n(grad_x, batch * shape.inputs(), 0.0F);
  const std::size_t run = is_whole_image(shape) ? shape.height * shape.width : shape.kernel_width;  // without gaps
  const std::size_t runs = is_whole_image(shape) ? 1 : shape.kernel_height;
  for_each_window(shape, batch, grad_y, [&](std::size_t from, float grad) {
    const float share = grad / window_numbers(shape);
    for (std::size_t i = 0; i < runs; ++i)
      for (std::size_t j = 0; j < run; ++j) grad_x[from + i * shape.width + j] += share;
  });
}

}  // namespace troupe::kernels
