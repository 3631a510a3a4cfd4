// Normalization, by channels and by rows.
//
// Numbers are summed in float32 over short ranges, and these sums in double. Statistics need two passes, the second
// over squared deviations.

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_stream.hpp"

#ifndef TROUPE_KERNELS_CPU_CHANNEL_GRADIENTS
#define TROUPE_KERNELS_CPU_CHANNEL_GRADIENTS
namespace troupe::kernels {
namespace {

/// The parameters of each channel for `batch_norm_backward_input`.
struct channel_gradients {
  const float* mean;
  const float* variance;
  const float* weight;
  const float* sum;
  const float* sum_xhat;
};

float inverse_deviation(float variance, float eps) { return 1 / std::sqrt(variance + eps); }

}  // namespace
}  // namespace troupe::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/normalization.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// Sets out[k] to the sum of term k over [0, count). `terms(d, at, out)` sets the vectors of terms at `at`.
template <std::size_t Sums, class Terms>
HWY_INLINE void sum_block(std::size_t count, const Terms& terms, float (&out)[Sums]) {
  constexpr std::size_t unrolled = 4;
  const hn::CappedTag<float, full_lanes> full;
  using vector = hn::Vec<decltype(full)>;
  vector sum[unrolled][Sums];
  for (auto& of_vector : sum)
    for (vector& s : of_vector) s = hn::Zero(full);
  std::size_t at = 0;
  for (; count - at >= unrolled * full_lanes; at += unrolled * full_lanes) {
    for (std::size_t v = 0; v < unrolled; ++v) {
      vector term[Sums];
      terms(full, at + v * full_lanes, term);
      for (std::size_t k = 0; k < Sums; ++k) sum[v][k] = hn::Add(sum[v][k], term[k]);
    }
  }
  for (; count - at >= full_lanes; at += full_lanes) {
    vector term[Sums];
    terms(full, at, term);
    for (std::size_t k = 0; k < Sums; ++k) sum[0][k] = hn::Add(sum[0][k], term[k]);
  }
  for (std::size_t k = 0; k < Sums; ++k)
    out[k] = hn::GetLane(hn::SumOfLanes(full, hn::Add(hn::Add(sum[0][k], sum[1][k]), hn::Add(sum[2][k], sum[3][k]))));
  const std::size_t rest = at;
  for_each_narrow_block<full_lanes / 2>(count - rest, 0, [&](auto d, auto, std::size_t i) HWY_ATTR {
    hn::Vec<decltype(d)> term[Sums];
    terms(d, rest + i, term);
    for (std::size_t k = 0; k < Sums; ++k) out[k] += hn::GetLane(hn::SumOfLanes(d, term[k]));
  });
}

// -- by channels ------------------------------------------------------------------------------------------------------

/// How many channels' parameters are computed at a time.
constexpr std::size_t channels_of_block = 64;

/// Channels [first, first + count) of x.
struct channel_block {
  const channels_shape& shape;
  std::size_t first;
  std::size_t count;

  /// The index of the first number of a sample's channel `first + c`.
  std::size_t place(std::size_t sample, std::size_t c) const {
    return (sample * shape.channels + first + c) * shape.area;
  }
};

template <class Body>
HWY_INLINE void for_each_channel_block(const channels_shape& shape, const Body& body) {
  for (std::size_t first = 0; first < shape.channels; first += channels_of_block)
    body(channel_block{shape, first, std::min(channels_of_block, shape.channels - first)});
}

/// Calls `body(d, at, of)` for vectors that cover the block: they begin at index `at` of x, and `of(p)` is the vector
/// of their channels' parameters in p [count].
template <class Body>
HWY_INLINE void for_each_vector_of(const channel_block& block, const Body& body) {
  for (std::size_t b = 0; b < block.shape.batch; ++b) {
    if (block.shape.area == 1) {
      for_each_vector(block.count, [&](auto d, std::size_t c) HWY_ATTR {
        body(d, block.place(b, c), [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + c); });
      });
      continue;
    }
    for (std::size_t c = 0; c < block.count; ++c) {
      const std::size_t place = block.place(b, c);
      for_each_vector(block.shape.area, [&](auto d, std::size_t i) HWY_ATTR {
        body(d, place + i, [&](const float* p) HWY_ATTR { return hn::Set(d, p[c]); });
      });
    }
  }
}

/// Adds samples [begin, end) of columns, each with one channel's numbers, to sums[k]: for channels without area.
template <std::size_t Sums, class Terms>
HWY_INLINE void add_columns_of(const channel_block& block, std::size_t begin, std::size_t end, const Terms& terms,
                               double (&sums)[Sums][channels_of_block]) {
  for_each_block<2>(block.count, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    using vector = hn::Vec<decltype(d)>;
    constexpr std::size_t lanes = hn::MaxLanes(d);
    vector sum[vector_count][Sums];
    for (auto& of_vector : sum)
      for (vector& s : of_vector) s = hn::Zero(d);
    for (std::size_t b = begin; b < end; ++b) {
      for (std::size_t v = 0; v < vector_count; ++v) {
        const std::size_t c = at + v * lanes;
        vector term[Sums];
        terms(
            d, block.place(b, c), [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + c); }, term);
        for (std::size_t k = 0; k < Sums; ++k) sum[v][k] = hn::Add(sum[v][k], term[k]);
      }
    }
    for (std::size_t v = 0; v < vector_count; ++v) {
      for (std::size_t k = 0; k < Sums; ++k) {
        float lane[lanes];
        hn::StoreU(sum[v][k], d, lane);
        for (std::size_t i = 0; i < lanes; ++i) sums[k][at + v * lanes + i] += static_cast<double>(lane[i]);
      }
    }
  });
}

/// Sets sums[k][c] to the sum of term k over channel c of the block. `terms(d, at, of, out)`: see `for_each_vector_of`.
template <std::size_t Sums, class Terms>
HWY_INLINE void sum_channels(const channel_block& block, const Terms& terms, double (&sums)[Sums][channels_of_block]) {
  for (auto& of_term : sums) std::fill_n(of_term, block.count, 0.0);
  if (block.shape.area == 1) {
    constexpr std::size_t block_samples = 256;  // samples that are summed in float32
    for (std::size_t begin = 0; begin < block.shape.batch; begin += block_samples)
      add_columns_of(block, begin, std::min(begin + block_samples, block.shape.batch), terms, sums);
    return;
  }
  for (std::size_t b = 0; b < block.shape.batch; ++b) {
    for (std::size_t c = 0; c < block.count; ++c) {
      const std::size_t place = block.place(b, c);
      float of_sample[Sums];
      sum_block(
          block.shape.area,
          [&](auto d, std::size_t i, auto& out) HWY_ATTR {
            terms(
                d, place + i, [&](const float* p) HWY_ATTR { return hn::Set(d, p[c]); }, out);
          },
          of_sample);
      for (std::size_t k = 0; k < Sums; ++k) sums[k][c] += static_cast<double>(of_sample[k]);
    }
  }
}

void moments(const channels_shape& shape, const float* x, float* mean, float* variance) {
  const auto count = static_cast<double>(shape.of_channel());
  for_each_channel_block(shape, [&](const channel_block& block) HWY_ATTR {
    double sums[1][channels_of_block];
    const auto divide_to = [&](float* to) HWY_ATTR {
      for (std::size_t c = 0; c < block.count; ++c) to[c] = static_cast<float>(sums[0][c] / count);
    };
    float* const means = mean + block.first;
    sum_channels(
        block, [&](auto d, std::size_t at, auto, auto& out) HWY_ATTR { out[0] = hn::LoadU(d, x + at); }, sums);
    divide_to(means);
    sum_channels(
        block,
        [&](auto d, std::size_t at, auto of, auto& out) HWY_ATTR {
          const auto deviation = hn::Sub(hn::LoadU(d, x + at), of(means));
          out[0] = hn::Mul(deviation, deviation);
        },
        sums);
    divide_to(variance + block.first);
  });
}

void normalize(const channels_shape& shape, const float* x, const float* mean, const float* variance, float eps,
               const float* weight, const float* bias, float* y) {
  for_each_channel_block(shape, [&](const channel_block& block) HWY_ATTR {
    float scale[channels_of_block];
    float shift[channels_of_block];
    for (std::size_t c = 0; c < block.count; ++c) {
      const std::size_t channel = block.first + c;
      scale[c] = inverse_deviation(variance[channel], eps) * (weight != nullptr ? weight[channel] : 1.0F);
      shift[c] = bias != nullptr ? bias[channel] : 0.0F;
    }
    for_each_vector_of(block, [&](auto d, std::size_t at, auto of) HWY_ATTR {
      const auto deviation = hn::Sub(hn::LoadU(d, x + at), of(mean + block.first));
      hn::StoreU(hn::MulAdd(deviation, of(scale), of(shift)), d, y + at);
    });
  });
}

void gradient_sums(const channels_shape& shape, const float* x, const float* mean, const float* variance, float eps,
                   const float* grad_y, float* sum, float* sum_xhat) {
  for_each_channel_block(shape, [&](const channel_block& block) HWY_ATTR {
    double sums[2][channels_of_block];
    sum_channels(
        block,
        [&](auto d, std::size_t at, auto of, auto& out) HWY_ATTR {
          out[0] = hn::LoadU(d, grad_y + at);
          out[1] = hn::Mul(out[0], hn::Sub(hn::LoadU(d, x + at), of(mean + block.first)));
        },
        sums);
    for (std::size_t c = 0; c < block.count; ++c) {
      const std::size_t channel = block.first + c;
      sum[channel] = static_cast<float>(sums[0][c]);
      sum_xhat[channel] =
          static_cast<float>(sums[1][c] * static_cast<double>(inverse_deviation(variance[channel], eps)));
    }
  });
}

void normalize_gradient(const channels_shape& shape, const float* x, const channel_gradients& of_channel, float eps,
                        std::size_t count, const float* grad_y, float* grad_x) {
  for_each_channel_block(shape, [&](const channel_block& block) HWY_ATTR {
    float scale[channels_of_block];
    float center[channels_of_block];
    float slope[channels_of_block];
    for (std::size_t c = 0; c < block.count; ++c) {
      const std::size_t channel = block.first + c;
      const float inverse = inverse_deviation(of_channel.variance[channel], eps);
      scale[c] = of_channel.weight != nullptr ? of_channel.weight[channel] * inverse : inverse;
      center[c] = of_channel.sum[channel] / static_cast<float>(count);
      slope[c] = of_channel.sum_xhat[channel] * inverse / static_cast<float>(count);
    }
    for_each_vector_of(block, [&](auto d, std::size_t at, auto of) HWY_ATTR {
      const auto deviation = hn::Sub(hn::LoadU(d, x + at), of(of_channel.mean + block.first));
      const auto grad = hn::NegMulAdd(deviation, of(slope), hn::Sub(hn::LoadU(d, grad_y + at), of(center)));
      hn::StoreU(hn::Mul(grad, of(scale)), d, grad_x + at);
    });
  });
}

// -- by rows ----------------------------------------------------------------------------------------------------------

void normalize_row(std::size_t width, const float* x, float eps, const float* weight, const float* bias, float& mean,
                   float& inverse, float* y) {
  float sum[1];
  sum_block(
      width, [&](auto d, std::size_t i, auto& out) HWY_ATTR { out[0] = hn::LoadU(d, x + i); }, sum);
  mean = sum[0] / static_cast<float>(width);
  const float center = mean;
  sum_block(
      width,
      [&](auto d, std::size_t i, auto& out) HWY_ATTR {
        const auto deviation = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, center));
        out[0] = hn::Mul(deviation, deviation);
      },
      sum);
  const float scale = inverse_deviation(sum[0] / static_cast<float>(width), eps);
  inverse = scale;
  for_each_vector(width, [&](auto d, std::size_t i) HWY_ATTR {
    const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, center)), hn::Set(d, scale));
    hn::StoreU(hn::MulAdd(xhat, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, y + i);
  });
}

void normalize_rows(std::size_t rows, std::size_t width, const float* x, float eps, const float* weight,
                    const float* bias, float* mean, float* inverse, float* y) {
  for (std::size_t r = 0; r < rows; ++r)
    normalize_row(width, x + r * width, eps, weight, bias, mean[r], inverse[r], y + r * width);
}

void rows_gradient(std::size_t rows, std::size_t width, const float* x, const float* mean, const float* inverse,
                   const float* weight, const float* grad_y, float* grad_x) {
  for (std::size_t r = 0; r < rows; ++r, x += width, grad_y += width, grad_x += width) {
    const auto xhat_at = [&](auto d, std::size_t i) HWY_ATTR {
      return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean[r])), hn::Set(d, inverse[r]));
    };
    float sums[2];
    sum_block(
        width,
        [&](auto d, std::size_t i, auto& out) HWY_ATTR {
          out[0] = hn::Mul(hn::LoadU(d, grad_y + i), hn::LoadU(d, weight + i));
          out[1] = hn::Mul(out[0], xhat_at(d, i));
        },
        sums);
    const float center = sums[0] / static_cast<float>(width);
    const float slope = sums[1] / static_cast<float>(width);
    const float scale = inverse[r];
    for_each_vector(width, [&](auto d, std::size_t i) HWY_ATTR {
      const auto grad = hn::MulSub(hn::LoadU(d, grad_y + i), hn::LoadU(d, weight + i), hn::Set(d, center));
      hn::StoreU(hn::Mul(hn::NegMulAdd(xhat_at(d, i), hn::Set(d, slope), grad), hn::Set(d, scale)), d, grad_x + i);
    });
  }
}

void parameters_gradient(std::size_t rows, std::size_t width, const float* x, const float* mean, const float* inverse,
                         const float* grad_y, float* grad_weight, float* grad_bias) {
  for_each_block<4>(width, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    hn::Vec<decltype(d)> of_weight[vector_count];
    hn::Vec<decltype(d)> of_bias[vector_count];
    for (std::size_t v = 0; v < vector_count; ++v) of_weight[v] = of_bias[v] = hn::Zero(d);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t v = 0; v < vector_count; ++v) {
        const std::size_t i = r * width + at + v * hn::Lanes(d);
        const auto grad = hn::LoadU(d, grad_y + i);
        const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean[r])), hn::Set(d, inverse[r]));
        of_weight[v] = hn::MulAdd(grad, xhat, of_weight[v]);
        of_bias[v] = hn::Add(of_bias[v], grad);
      }
    }
    for (std::size_t v = 0; v < vector_count; ++v) {
      hn::StoreU(of_weight[v], d, grad_weight + at + v * hn::Lanes(d));
      hn::StoreU(of_bias[v], d, grad_bias + at + v * hn::Lanes(d));
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(moments);
HWY_EXPORT(normalize);
HWY_EXPORT(gradient_sums);
HWY_EXPORT(normalize_gradient);
HWY_EXPORT(normalize_rows);
HWY_EXPORT(rows_gradient);
HWY_EXPORT(parameters_gradient);

void cpu_stream::channel_moments(const channels_shape& shape, const float* x, float* mean, float* variance) {
  HWY_DYNAMIC_DISPATCH(moments)(shape, x, mean, variance);
}

void cpu_stream::update_running(std::size_t channels, float momentum, float factor, const float* x, float* running) {
  for (std::size_t c = 0; c < channels; ++c)
    if (std::isfinite(x[c])) running[c] = (1 - momentum) * running[c] + momentum * factor * x[c];
}

void cpu_stream::batch_norm_forward(const channels_shape& shape, const float* x, const float* mean,
                                    const float* variance, float eps, const float* weight, const float* bias,
                                    float* y) {
  HWY_DYNAMIC_DISPATCH(normalize)(shape, x, mean, variance, eps, weight, bias, y);
}

void cpu_stream::batch_norm_sums(const channels_shape& shape, const float* x, const float* mean, const float* variance,
                                 float eps, const float* grad_y, float* sum, float* sum_xhat) {
  HWY_DYNAMIC_DISPATCH(gradient_sums)(shape, x, mean, variance, eps, grad_y, sum, sum_xhat);
}

void cpu_stream::batch_norm_backward_input(const channels_shape& shape, const float* x, const float* mean,
                                           const float* variance, float eps, const float* weight, const float* sum,
                                           const float* sum_xhat, std::size_t count, const float* grad_y,
                                           float* grad_x) {
  HWY_DYNAMIC_DISPATCH(normalize_gradient)
  (shape, x, {mean, variance, weight, sum, sum_xhat}, eps, count, grad_y, grad_x);
}

void cpu_stream::layer_norm_forward(std::size_t rows, std::size_t width, const float* x, float eps, const float* weight,
                                    const float* bias, float* mean, float* inverse, float* y) {
  HWY_DYNAMIC_DISPATCH(normalize_rows)(rows, width, x, eps, weight, bias, mean, inverse, y);
}

void cpu_stream::layer_norm_backward_input(std::size_t rows, std::size_t width, const float* x, const float* mean,
                                           const float* inverse, const float* weight, const float* grad_y,
                                           float* grad_x) {
  HWY_DYNAMIC_DISPATCH(rows_gradient)(rows, width, x, mean, inverse, weight, grad_y, grad_x);
}

void cpu_stream::layer_norm_backward_parameters(std::size_t rows, std::size_t width, const float* x, const float* mean,
                                                const float* inverse, const float* grad_y, float* grad_weight,
                                                float* grad_bias) {
  HWY_DYNAMIC_DISPATCH(parameters_gradient)(rows, width, x, mean, inverse, grad_y, grad_weight, grad_bias);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
