// Softmax of rows. Exponentials are vectorized in float32; sums are in double and in order, so that they do not depend
// on the width of vectors.

#include <algorithm>
#include <limits>

#include "kernels/cpu/cpu_stream.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

void softmax_row(std::size_t count, float scale, const float* x, float* y) {
  float peak = -std::numeric_limits<float>::infinity();
  for_each_vector(count, [&](auto d, std::size_t at)
                             HWY_ATTR { peak = std::max(peak, hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, x + at)))); });
  for_each_vector(count, [&](auto d, std::size_t at) HWY_ATTR {
    const auto power = hn::Mul(hn::Sub(hn::LoadU(d, x + at), hn::Set(d, peak)), hn::Set(d, scale));
    hn::StoreU(hn::IfThenElse(hn::IsNaN(power), power, hn::Exp(d, power)), d, y + at);
  });
  double sum = 0;
  for (std::size_t c = 0; c < count; ++c) sum += static_cast<double>(y[c]);
  const auto share = static_cast<float>(1 / sum);
  for_each_vector(count, [&](auto d, std::size_t at)
                             HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, y + at), hn::Set(d, share)), d, y + at); });
}

void softmax_row_gradient(std::size_t count, float scale, const float* y, const float* grad_y, float* grad_x) {
  double sum = 0;
  for (std::size_t c = 0; c < count; ++c) sum += static_cast<double>(y[c]) * static_cast<double>(grad_y[c]);
  const auto mean = static_cast<float>(sum);
  for_each_vector(count, [&](auto d, std::size_t at) HWY_ATTR {
    const auto apart = hn::Sub(hn::LoadU(d, grad_y + at), hn::Set(d, mean));
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, y + at), hn::Set(d, scale)), apart), d, grad_x + at);
  });
}

void softmax_rows(std::size_t rows, std::size_t width, float scale, bool causal, const float* x, float* y) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t taken = causal ? row % width + 1 : width;
    softmax_row(taken, scale, x + row * width, y + row * width);
    std::fill(y + row * width + taken, y + (row + 1) * width, 0.0F);
  }
}

void softmax_rows_gradient(std::size_t rows, std::size_t width, float scale, const float* y, const float* grad_y,
                           float* grad_x) {
  for (std::size_t at = 0; at < rows * width; at += width)
    softmax_row_gradient(width, scale, y + at, grad_y + at, grad_x + at);
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_rows_gradient);

void cpu_stream::softmax_forward(std::size_t rows, std::size_t width, float scale, bool causal, const float* x,
                                 float* y) {
  HWY_DYNAMIC_DISPATCH(softmax_rows)(rows, width, scale, causal, x, y);
}

void cpu_stream::softmax_backward(std::size_t rows, std::size_t width, float scale, const float* y, const float* grad_y,
                                  float* grad_x) {
  HWY_DYNAMIC_DISPATCH(softmax_rows_gradient)(rows, width, scale, y, grad_y, grad_x);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
