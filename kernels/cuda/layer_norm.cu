// Normalization by rows. One warp handles a row.

#include "kernels/cuda/channels.hpp"
#include "kernels/cuda/cuda_stream.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Sums terms(column), of type `two_sums`, over a row. Every lane gets the same result.
template <class Terms>
__device__ two_sums sum_row(std::size_t columns, const Terms& terms) {
  two_sums mine{};
  for (std::size_t c = threadIdx.x % warp_lanes; c < columns; c += warp_lanes) mine = pair_of_sums()(mine, terms(c));
  return {combine_warp(mine.first, sum_of()), combine_warp(mine.second, sum_of())};
}

__global__ void layer_norm_forward_kernel(std::size_t rows, std::size_t columns, const float* x, float eps,
                                          const float* weight, const float* bias, float* means, float* inverses,
                                          float* y) {
  const std::size_t row = global_thread() / warp_lanes;
  if (row >= rows) return;
  const float* const from = x + row * columns;
  const auto count = static_cast<double>(columns);
  // Minus the row's first number: so a large mean loses no digits.
  const auto first = static_cast<double>(from[0]);
  const two_sums sums = sum_row(columns, [&](std::size_t c) {
    const double apart = static_cast<double>(from[c]) - first;
    return two_sums{apart, apart * apart};
  });
  const double apart = sums.first / count;
  const double spread = sums.second / count - apart * apart;
  const auto mean = static_cast<float>(first + apart);
  const float inverse = 1.0F / sqrtf((spread < 0 ? 0.0F : static_cast<float>(spread)) + eps);
  for (std::size_t c = threadIdx.x % warp_lanes; c < columns; c += warp_lanes)
    y[row * columns + c] = fmaf((from[c] - mean) * inverse, weight[c], bias[c]);
  if (threadIdx.x % warp_lanes != 0) return;
  means[row] = mean;
  inverses[row] = inverse;
}

__global__ void layer_norm_backward_kernel(std::size_t rows, std::size_t columns, const float* x, const float* means,
                                           const float* inverses, const float* weight, const float* grad_y,
                                           float* grad_x) {
  const std::size_t row = global_thread() / warp_lanes;
  if (row >= rows) return;
  const std::size_t begin = row * columns;
  const float mean = means[row];
  const float inverse = inverses[row];
  const auto xhat = [&](std::size_t c) { return (x[begin + c] - mean) * inverse; };
  const two_sums sums = sum_row(columns, [&](std::size_t c) {
    const auto grad = static_cast<double>(grad_y[begin + c] * weight[c]);
    return two_sums{grad, grad * static_cast<double>(xhat(c))};
  });
  const auto mean_grad = static_cast<float>(sums.first / static_cast<double>(columns));
  const auto slope = static_cast<float>(sums.second / static_cast<double>(columns));
  for (std::size_t c = threadIdx.x % warp_lanes; c < columns; c += warp_lanes)
    grad_x[begin + c] = inverse * (grad_y[begin + c] * weight[c] - fmaf(xhat(c), slope, mean_grad));
}

/// The columns are channels without area.
struct row_gradient_terms {
  const float* x;
  const float* mean;
  const float* inverse;
  const float* grad_y;

  __device__ two_sums operator()(std::size_t row, std::size_t, std::size_t at) const {
    const auto grad = static_cast<double>(grad_y[at]);
    return {grad, grad * static_cast<double>((x[at] - mean[row]) * inverse[row])};
  }
};

struct store_parameter_gradients {
  float* grad_weight;
  float* grad_bias;

  __device__ void operator()(std::size_t column, two_sums sums) const {
    grad_bias[column] = static_cast<float>(sums.first);
    grad_weight[column] = static_cast<float>(sums.second);
  }
};

}  // namespace

void cuda_stream::layer_norm_forward(std::size_t rows, std::size_t width, const float* x, float eps,
                                     const float* weight, const float* bias, float* mean, float* inverse, float* y) {
  launch(layer_norm_forward_kernel, blocks_for(rows * warp_lanes), *this, rows, width, x, eps, weight, bias, mean,
         inverse, y);
}

void cuda_stream::layer_norm_backward_input(std::size_t rows, std::size_t width, const float* x, const float* mean,
                                            const float* inverse, const float* weight, const float* grad_y,
                                            float* grad_x) {
  launch(layer_norm_backward_kernel, blocks_for(rows * warp_lanes), *this, rows, width, x, mean, inverse, weight,
         grad_y, grad_x);
}

void cuda_stream::layer_norm_backward_parameters(std::size_t rows, std::size_t width, const float* x, const float* mean,
                                                 const float* inverse, const float* grad_y, float* grad_weight,
                                                 float* grad_bias) {
  const channels_shape shape{rows, width, 1};
  sum_channels(*this, shape, grow(partial_sums_, channel_parts_bytes(shape)),
               row_gradient_terms{x, mean, inverse, grad_y}, store_parameter_gradients{grad_weight, grad_bias});
}

}  // namespace troupe::kernels::cuda
