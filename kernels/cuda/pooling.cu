// Pooling of images. A thread computes one number of the result, and sums its inputs in the order of rows and columns.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/launch.hpp"
#include "kernels/image.hpp"

namespace troupe::kernels::cuda {
namespace {

/// The images of a pooling: planes [height, width] of x and [out_height, out_width] of y.
struct pooled_planes {
  std::size_t planes, height, width, kernel_height, kernel_width, stride, out_height, out_width;

  pooled_planes(const pool2d_shape& s, std::size_t batch)
      : planes(batch * s.channels),
        height(s.height),
        width(s.width),
        kernel_height(s.kernel_height),
        kernel_width(s.kernel_width),
        stride(s.stride),
        out_height(s.out_height()),
        out_width(s.out_width()) {}

  std::size_t inputs() const { return planes * height * width; }
  std::size_t outputs() const { return planes * out_height * out_width; }
  bool overlap() const {
    return (out_height > 1 && stride < kernel_height) || (out_width > 1 && stride < kernel_width);
  }

  /// The index of the upper left number of window `i`.
  __device__ std::size_t window(std::size_t i) const {
    const std::size_t rows = quotient(i, out_width);
    const std::size_t plane = quotient(rows, out_height);
    return (plane * height + (rows - plane * out_height) * stride) * width + (i - rows * out_width) * stride;
  }

  /// Calls body(at) for the indices of the window that begins at `from`, in order.
  template <class Body>
  __device__ void for_window(std::size_t from, const Body& body) const {
    for (std::size_t row = 0; row < kernel_height; ++row)
      for (std::size_t column = 0; column < kernel_width; ++column) body(from + row * width + column);
  }

  /// Calls body(i) for the windows that contain the number at `at`, in order.
  template <class Body>
  __device__ void for_windows_of(std::size_t at, const Body& body) const {
    const std::size_t rows = quotient(at, width);
    const std::size_t plane = quotient(rows, height);
    const std::size_t row = rows - plane * height;
    const std::size_t column = at - rows * width;
    const std::size_t last_row = last_window(row, out_height);
    const std::size_t last_column = last_window(column, out_width);
    for (std::size_t r = first_window(row, kernel_height); r <= last_row; ++r)
      for (std::size_t c = first_window(column, kernel_width); c <= last_column; ++c)
        body((plane * out_height + r) * out_width + c);
  }

  /// The first and the last window along a side that contain the position; the first is after the last if none does.
  __device__ std::size_t first_window(std::size_t place, std::size_t kernel) const {
    return place < kernel ? 0 : quotient(place - kernel, stride) + 1;
  }
  __device__ std::size_t last_window(std::size_t place, std::size_t windows) const {
    const std::size_t last = quotient(place, stride);
    return last < windows ? last : windows - 1;
  }
};

/// The largest number so far and its index: the first NaN, or the first of the largest.
struct largest_number {
  float number;
  std::size_t place;

  __device__ void take(float next, std::size_t at) {
    if (number == number && !(next <= number)) *this = {next, at};
  }
};

__device__ largest_number largest_of(const pooled_planes& p, const float* x, std::size_t from) {
  largest_number largest{x[from], from};
  p.for_window(from, [&](std::size_t at) { largest.take(x[at], at); });
  return largest;
}

__global__ void max_pool_kernel(pooled_planes p, std::size_t count, const float* x, float* y) {
  for (std::size_t i = global_thread(); i < count; i += thread_count()) y[i] = largest_of(p, x, p.window(i)).number;
}

/// For windows that do not overlap: gives each window's gradient to its largest number.
__global__ void max_pool_scatter_kernel(pooled_planes p, std::size_t count, const float* x, const float* grad_y,
                                        float* grad_x) {
  for (std::size_t i = global_thread(); i < count; i += thread_count())
    grad_x[largest_of(p, x, p.window(i)).place] = grad_y[i];
}

/// For overlapping windows: sums the gradients of the windows whose largest number is this thread's.
__global__ void max_pool_gather_kernel(pooled_planes p, std::size_t count, const float* x, const float* grad_y,
                                       float* grad_x) {
  for (std::size_t at = global_thread(); at < count; at += thread_count()) {
    float sum = 0;
    p.for_windows_of(at, [&](std::size_t i) {
      if (largest_of(p, x, p.window(i)).place == at) sum += grad_y[i];
    });
    grad_x[at] = sum;
  }
}

__global__ void avg_pool_kernel(pooled_planes p, std::size_t count, const float* x, float* y) {
  const auto area = static_cast<float>(p.kernel_height * p.kernel_width);
  for (std::size_t i = global_thread(); i < count; i += thread_count()) {
    float sum = 0;
    p.for_window(p.window(i), [&](std::size_t at) { sum += x[at]; });
    y[i] = sum / area;
  }
}

__global__ void avg_pool_backward_kernel(pooled_planes p, std::size_t count, const float* grad_y, float* grad_x) {
  const auto area = static_cast<float>(p.kernel_height * p.kernel_width);
  for (std::size_t at = global_thread(); at < count; at += thread_count()) {
    float sum = 0;
    p.for_windows_of(at, [&](std::size_t i) { sum += grad_y[i]; });
    grad_x[at] = sum / area;
  }
}

std::size_t blocks_for_numbers(std::size_t count) {
  constexpr std::size_t most = 1 << 16;
  return blocks_for(count, most);
}

}  // namespace

void cuda_stream::max_pool2d_forward(const pool2d_shape& shape, std::size_t batch, const float* x, float* y) {
  const pooled_planes p(shape, batch);
  launch(max_pool_kernel, blocks_for_numbers(p.outputs()), *this, p, p.outputs(), x, y);
}

void cuda_stream::max_pool2d_backward(const pool2d_shape& shape, std::size_t batch, const float* x, const float* grad_y,
                                      float* grad_x) {
  const pooled_planes p(shape, batch);
  if (p.outputs() > 0 && p.overlap()) {
    launch(max_pool_gather_kernel, blocks_for_numbers(p.inputs()), *this, p, p.inputs(), x, grad_y, grad_x);
  } else {
    fill(p.inputs(), 0, grad_x);
    launch(max_pool_scatter_kernel, blocks_for_numbers(p.outputs()), *this, p, p.outputs(), x, grad_y, grad_x);
  }
}

void cuda_stream::avg_pool2d_forward(const pool2d_shape& shape, std::size_t batch, const float* x, float* y) {
  const pooled_planes p(shape, batch);
  launch(avg_pool_kernel, blocks_for_numbers(p.outputs()), *this, p, p.outputs(), x, y);
}

void cuda_stream::avg_pool2d_backward(const pool2d_shape& shape, std::size_t batch, const float* grad_y,
                                      float* grad_x) {
  const pooled_planes p(shape, batch);
  if (p.outputs() == 0) return fill(p.inputs(), 0, grad_x);
  launch(avg_pool_backward_kernel, blocks_for_numbers(p.inputs()), *this, p, p.inputs(), grad_y, grad_x);
}

}  // namespace troupe::kernels::cuda
