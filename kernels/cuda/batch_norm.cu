// Normalization by channels.

#include "kernels/cuda/channels.hpp"
#include "kernels/cuda/cuda_stream.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Sums a channel's numbers and their squares, minus its first number: so large means lose no digits.
struct moment_terms {
  std::size_t area;
  const float* x;

  __device__ two_sums operator()(std::size_t, std::size_t channel, std::size_t at) const {
    const double apart = static_cast<double>(x[at]) - static_cast<double>(x[channel * area]);
    return {apart, apart * apart};
  }
};

struct store_moments {
  double count;
  std::size_t area;
  const float* x;
  float* mean;
  float* variance;

  __device__ void operator()(std::size_t channel, two_sums sums) const {
    const double apart = sums.first / count;
    const double spread = sums.second / count - apart * apart;
    mean[channel] = static_cast<float>(static_cast<double>(x[channel * area]) + apart);
    variance[channel] = spread < 0 ? 0.0F : static_cast<float>(spread);  // by comparison, which keeps NaN
  }
};

/// A channel's statistics.
struct statistics {
  const float* mean;
  const float* variance;
  float eps;

  __device__ float inverse(std::size_t channel) const { return 1.0F / sqrtf(variance[channel] + eps); }
};

struct gradient_terms {
  const float* x;
  const float* grad_y;
  statistics of;

  __device__ two_sums operator()(std::size_t, std::size_t channel, std::size_t at) const {
    const float xhat = (x[at] - of.mean[channel]) * of.inverse(channel);
    const auto grad = static_cast<double>(grad_y[at]);
    return {grad, grad * static_cast<double>(xhat)};
  }
};

struct number_terms {
  const float* x;

  __device__ two_sums operator()(std::size_t, std::size_t, std::size_t at) const {
    return {static_cast<double>(x[at]), 0};
  }
};

struct store_sums {
  float* first;
  float* second;  ///< may be null

  __device__ void operator()(std::size_t channel, two_sums sums) const {
    first[channel] = static_cast<float>(sums.first);
    if (second) second[channel] = static_cast<float>(sums.second);
  }
};

struct normalize_numbers {
  const float* x;
  statistics of;
  const float* weight;
  const float* bias;
  float* y;

  template <int Count>
  __device__ void operator()(width<Count>, std::size_t channel, std::size_t at) const {
    const float mean = of.mean[channel];
    const float inverse = of.inverse(channel);
    const float factor = weight ? weight[channel] : 1.0F;
    const float more = bias ? bias[channel] : 0.0F;
    auto numbers = load_pack<Count>(x + at);
    for (float& number : numbers.at) number = fmaf((number - mean) * inverse, factor, more);
    store_pack(numbers, y + at);
  }
};

struct propagate_gradient {
  const float* x;
  statistics of;
  const float* weight;
  const float* sum;
  const float* sum_xhat;
  float count;
  const float* grad_y;
  float* grad_x;

  template <int Count>
  __device__ void operator()(width<Count>, std::size_t channel, std::size_t at) const {
    const float mean = of.mean[channel];
    const float inverse = of.inverse(channel);
    const float factor = weight ? weight[channel] * inverse : inverse;
    const float mean_grad = sum[channel] / count;
    const float slope = sum_xhat[channel] / count;
    const auto numbers = load_pack<Count>(x + at);
    auto grad = load_pack<Count>(grad_y + at);
    unrolled<Count>([&](int k) {
      const float xhat = (numbers.at[k] - mean) * inverse;
      grad.at[k] = factor * (grad.at[k] - fmaf(xhat, slope, mean_grad));
    });
    store_pack(grad, grad_x + at);
  }
};

struct add_to_channel {
  const float* bias;
  float* y;

  template <int Count>
  __device__ void operator()(width<Count>, std::size_t channel, std::size_t at) const {
    auto numbers = load_pack<Count>(y + at);
    for (float& number : numbers.at) number += bias[channel];
    store_pack(numbers, y + at);
  }
};

__global__ void update_running_kernel(std::size_t channels, float momentum, float factor, const float* x,
                                      float* running) {
  const std::size_t c = global_thread();
  if (c >= channels || !is_finite(x[c])) return;
  running[c] = (1.0F - momentum) * running[c] + momentum * factor * x[c];
}

}  // namespace

void cuda_stream::channel_moments(const channels_shape& shape, const float* x, float* mean, float* variance) {
  sum_channels(*this, shape, grow(partial_sums_, channel_parts_bytes(shape)), moment_terms{shape.area, x},
               store_moments{static_cast<double>(shape.of_channel()), shape.area, x, mean, variance});
}

void cuda_stream::channel_sums(const channels_shape& shape, const float* x, float* sums) {
  sum_channels(*this, shape, grow(partial_sums_, channel_parts_bytes(shape)), number_terms{x},
               store_sums{sums, nullptr});
}

void cuda_stream::add_channel_bias(const channels_shape& shape, const float* bias, float* y) {
  by_channel(*this, shape, fits_packs<4>(y), add_to_channel{bias, y});
}

void cuda_stream::update_running(std::size_t channels, float momentum, float factor, const float* x, float* running) {
  launch(update_running_kernel, blocks_for(channels), *this, channels, momentum, factor, x, running);
}

void cuda_stream::batch_norm_forward(const channels_shape& shape, const float* x, const float* mean,
                                     const float* variance, float eps, const float* weight, const float* bias,
                                     float* y) {
  by_channel(*this, shape, fits_packs<4>(x) && fits_packs<4>(y),
             normalize_numbers{x, {mean, variance, eps}, weight, bias, y});
}

void cuda_stream::batch_norm_sums(const channels_shape& shape, const float* x, const float* mean, const float* variance,
                                  float eps, const float* grad_y, float* sum, float* sum_xhat) {
  sum_channels(*this, shape, grow(partial_sums_, channel_parts_bytes(shape)),
               gradient_terms{x, grad_y, {mean, variance, eps}}, store_sums{sum, sum_xhat});
}

void cuda_stream::batch_norm_backward_input(const channels_shape& shape, const float* x, const float* mean,
                                            const float* variance, float eps, const float* weight, const float* sum,
                                            const float* sum_xhat, std::size_t count, const float* grad_y,
                                            float* grad_x) {
  by_channel(
      *this, shape, fits_packs<4>(x) && fits_packs<4>(grad_y) && fits_packs<4>(grad_x),
      propagate_gradient{x, {mean, variance, eps}, weight, sum, sum_xhat, static_cast<float>(count), grad_y, grad_x});
}

}  // namespace troupe::kernels::cuda
