// Softmax of rows. One warp handles a row.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {
namespace {

__global__ void softmax_forward_kernel(std::size_t rows, std::size_t width, float scale, bool causal, const float* x,
                                       float* y) {
  const std::size_t row = global_thread() / warp_lanes;
  if (row >= rows) return;
  const unsigned lane = threadIdx.x % warp_lanes;
  const std::size_t taken = causal ? row % width + 1 : width;
  const float* const from = x + row * width;
  float* const to = y + row * width;
  float peak = -INFINITY;
  for (std::size_t c = lane; c < taken; c += warp_lanes) peak = fmaxf(peak, from[c]);
  peak = combine_warp(peak, [](float a, float b) { return fmaxf(a, b); });  // fmaxf ignores NaN; the sum below does not
  double sum = 0;
  for (std::size_t c = lane; c < width; c += warp_lanes) {
    to[c] = c < taken ? expf((from[c] - peak) * scale) : 0.0F;
    sum += static_cast<double>(to[c]);
  }
  const auto share = static_cast<float>(1 / combine_warp(sum, sum_of()));
  for (std::size_t c = lane; c < taken; c += warp_lanes) to[c] *= share;
}

__global__ void softmax_backward_kernel(std::size_t rows, std::size_t width, float scale, const float* y,
                                        const float* grad_y, float* grad_x) {
  const std::size_t row = global_thread() / warp_lanes;
  if (row >= rows) return;
  const std::size_t begin = row * width + threadIdx.x % warp_lanes;
  const std::size_t end = (row + 1) * width;
  double sum = 0;
  for (std::size_t at = begin; at < end; at += warp_lanes)
    sum += static_cast<double>(y[at]) * static_cast<double>(grad_y[at]);
  const auto mean = static_cast<float>(combine_warp(sum, sum_of()));
  for (std::size_t at = begin; at < end; at += warp_lanes) grad_x[at] = y[at] * scale * (grad_y[at] - mean);
}

}  // namespace

void cuda_stream::softmax_forward(std::size_t rows, std::size_t width, float scale, bool causal, const float* x,
                                  float* y) {
  launch(softmax_forward_kernel, blocks_for(rows * warp_lanes), *this, rows, width, scale, causal, x, y);
}

void cuda_stream::softmax_backward(std::size_t rows, std::size_t width, float scale, const float* y,
                                   const float* grad_y, float* grad_x) {
  launch(softmax_backward_kernel, blocks_for(rows * warp_lanes), *this, rows, width, scale, y, grad_y, grad_x);
}

}  // namespace troupe::kernels::cuda
