// Losses and their gradients. Exponentials and logarithms are vectorized in float32; sums are in double and in order,
// so that they do not depend on the width of vectors. A NaN among the outputs makes the loss NaN.

#include "kernels/cpu/cpu_stream.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// exp(x) for x <= 0; NaN stays NaN (Highway's Exp returns 0).
template <class D>
HWY_INLINE hn::Vec<D> exp_of(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// Returns the loss of one sample; writes its gradient, divided by `whole`, to `grad`.
HWY_INLINE double cross_entropy(std::size_t classes, const float* logits, std::size_t target, double whole,
                                float* grad) {
  const double target_logit = logits[target];  // grad may overwrite it
  float peak = -std::numeric_limits<float>::infinity();
  for_each_block<1>(classes, [&](auto d, auto, std::size_t at) HWY_ATTR {
    peak = std::max(peak, hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, logits + at))));
  });
  for_each_block<1>(classes, [&](auto d, auto, std::size_t at) HWY_ATTR {
    hn::StoreU(exp_of(d, hn::Sub(hn::LoadU(d, logits + at), hn::Set(d, peak))), d, grad + at);
  });
  double sum = 0;
  for (std::size_t c = 0; c < classes; ++c) sum += static_cast<double>(grad[c]);
  const auto factor = static_cast<float>(1 / (sum * whole));
  for_each_block<1>(classes, [&](auto d, auto, std::size_t at) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, grad + at), hn::Set(d, factor)), d, grad + at);
  });
  grad[target] -= static_cast<float>(1 / whole);
  return std::log(sum) + (static_cast<double>(peak) - target_logit);
}

double cross_entropy_sum(batch_part samples, std::size_t classes, const float* logits, const std::int64_t* target,
                         float* grad) {
  double sum = 0;
  for (std::size_t b = 0; b < samples.size; ++b)
    sum += cross_entropy(classes, logits + b * classes, static_cast<std::size_t>(target[b]),
                         static_cast<double>(samples.whole), grad + b * classes);
  return sum;
}

/// How many losses are computed before they are added in order.
constexpr std::size_t losses_per_chunk = 256;

double binary_cross_entropy_sum(std::size_t count, const float* logits, const float* target, float factor,
                                float* grad) {
  float losses[losses_per_chunk];
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += losses_per_chunk) {
    const std::size_t length = std::min(losses_per_chunk, count - begin);
    for_each_block<1>(length, [&](auto d, auto, std::size_t at) HWY_ATTR {
      const auto z = hn::LoadU(d, logits + begin + at);
      const auto t = hn::LoadU(d, target + begin + at);
      const auto one = hn::Set(d, 1.0F);
      const auto negative = hn::Lt(z, hn::Zero(d));
      const auto e = exp_of(d, hn::Neg(hn::Abs(z)));
      const auto loss = hn::Add(hn::NegMulAdd(z, t, hn::IfThenZeroElse(negative, z)), hn::Log1p(d, e));
      hn::StoreU(loss, d, losses + at);
      // Both forms of the sigmoid divide by at most 2, for any z.
      const auto sigmoid = hn::Div(hn::IfThenElse(negative, e, one), hn::Add(one, e));
      hn::StoreU(hn::Mul(hn::Sub(sigmoid, t), hn::Set(d, factor)), d, grad + begin + at);
    });
    for (std::size_t i = 0; i < length; ++i) sum += static_cast<double>(losses[i]);
  }
  return sum;
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(cross_entropy_sum);
HWY_EXPORT(binary_cross_entropy_sum);

void cpu_stream::softmax_cross_entropy(batch_part samples, std::size_t classes, const float* logits,
                                       const std::int64_t* target, float* grad, double* loss) {
  const double sum = HWY_DYNAMIC_DISPATCH(cross_entropy_sum)(samples, classes, logits, target, grad);
  *loss = sum / static_cast<double>(samples.whole);
}

void cpu_stream::bce_with_logits(batch_part samples, std::size_t outputs, const float* logits, const float* target,
                                 float* grad, double* loss) {
  const std::size_t count = samples.size * outputs;
  const auto n = static_cast<double>(samples.whole * outputs);
  *loss = HWY_DYNAMIC_DISPATCH(binary_cross_entropy_sum)(count, logits, target, static_cast<float>(1 / n), grad) / n;
}

void cpu_stream::mean_squared_error(batch_part samples, std::size_t outputs, const float* y, const float* target,
                                    float* grad, double* loss) {
  const std::size_t count = samples.size * outputs;
  const auto n = static_cast<double>(samples.whole * outputs);
  const auto factor = static_cast<float>(2 / n);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(y[i]) - static_cast<double>(target[i]);
    sum += difference * difference;
    grad[i] = factor * static_cast<float>(difference);
  }
  *loss = sum / n;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
