// Losses and their gradients. Losses are summed in double, in an order that depends on the batch only.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Returns the loss of one sample on the lane that handles its target, 0 on the others.
__device__ double cross_entropy(std::size_t classes, const float* logits, std::size_t target, double whole,
                                float* grad) {
  const unsigned lane = threadIdx.x % warp_lanes;
  float peak = -INFINITY;
  for (std::size_t c = lane; c < classes; c += warp_lanes) peak = fmaxf(peak, logits[c]);
  peak = combine_warp(peak, [](float a, float b) { return fmaxf(a, b); });  // fmaxf ignores NaN; the sum below does not
  double sum = 0;
  float target_logit = 0;
  for (std::size_t c = lane; c < classes; c += warp_lanes) {
    if (c == target) target_logit = logits[c];  // grad may overwrite it
    grad[c] = expf(logits[c] - peak);
    sum += static_cast<double>(grad[c]);
  }
  sum = combine_warp(sum, sum_of());
  const auto factor = static_cast<float>(1 / (sum * whole));
  for (std::size_t c = lane; c < classes; c += warp_lanes) {
    const float share = grad[c] * factor;
    grad[c] = c == target ? share - static_cast<float>(1 / whole) : share;
  }
  if (target % warp_lanes != lane) return 0;
  return log(sum) + (static_cast<double>(peak) - static_cast<double>(target_logit));
}

/// A warp handles one sample at a time.
__global__ void cross_entropy_parts(batch_part samples, std::size_t classes, const float* logits,
                                    const std::int64_t* target, float* grad, double* parts) {
  double sum = 0;
  for (std::size_t b = global_thread() / warp_lanes; b < samples.size; b += thread_count() / warp_lanes)
    sum += cross_entropy(classes, logits + b * classes, static_cast<std::size_t>(target[b]),
                         static_cast<double>(samples.whole), grad + b * classes);
  store_part<sum_of>(sum, parts);
}

__global__ void binary_cross_entropy_parts(std::size_t count, const float* logits, const float* target, float factor,
                                           float* grad, double* parts) {
  double sum = 0;
  for (std::size_t i = global_thread(); i < count; i += thread_count()) {
    const float z = logits[i];
    const float t = target[i];
    const bool negative = z < 0;
    const float e = expf(-fabsf(z));
    sum += static_cast<double>(fmaf(-z, t, negative ? 0.0F : z) + log1pf(e));
    // Both forms of the sigmoid divide by at most 2, for any z.
    grad[i] = ((negative ? e : 1.0F) / (1.0F + e) - t) * factor;
  }
  store_part<sum_of>(sum, parts);
}

__global__ void squared_error_parts(std::size_t count, const float* y, const float* target, float factor, float* grad,
                                    double* parts) {
  double sum = 0;
  for (std::size_t i = global_thread(); i < count; i += thread_count()) {
    const double difference = static_cast<double>(y[i]) - static_cast<double>(target[i]);
    sum += difference * difference;
    grad[i] = factor * static_cast<float>(difference);
  }
  store_part<sum_of>(sum, parts);
}

}  // namespace

void cuda_stream::softmax_cross_entropy(batch_part samples, std::size_t classes, const float* logits,
                                        const std::int64_t* target, float* grad, double* loss) {
  const std::size_t blocks = blocks_for(samples.size * warp_lanes, reduce_blocks_max);
  sum_parts(cross_entropy_parts, blocks, *this, static_cast<double>(samples.whole), loss, samples, classes, logits,
            target, grad);
}

void cuda_stream::bce_with_logits(batch_part samples, std::size_t outputs, const float* logits, const float* target,
                                  float* grad, double* loss) {
  const std::size_t count = samples.size * outputs;
  const auto n = static_cast<double>(samples.whole * outputs);
  sum_parts(binary_cross_entropy_parts, reduce_blocks(count), *this, n, loss, count, logits, target,
            static_cast<float>(1 / n), grad);
}

void cuda_stream::mean_squared_error(batch_part samples, std::size_t outputs, const float* y, const float* target,
                                     float* grad, double* loss) {
  const std::size_t count = samples.size * outputs;
  const auto n = static_cast<double>(samples.whole * outputs);
  sum_parts(squared_error_parts, reduce_blocks(count), *this, n, loss, count, y, target, static_cast<float>(2 / n),
            grad);
}

}  // namespace troupe::kernels::cuda
