// The gates of an LSTM.

#include "kernels/cpu/cpu_stream.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/lstm.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// 1 / (1 + exp(-x)), computed by exp(-|x|), which is at most 1.
template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0F);
  const auto power = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const auto above = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), power, one);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Div(above, hn::Add(one, power)));
}

template <class D>
HWY_INLINE hn::Vec<D> tanh_of(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
}

/// 1 - x^2.
template <class D>
HWY_INLINE hn::Vec<D> one_less_square(D d, hn::Vec<D> x) {
  return hn::NegMulAdd(x, x, hn::Set(d, 1.0F));
}

/// The slope of a sigmoid whose value is x.
template <class D>
HWY_INLINE hn::Vec<D> sigmoid_slope(D /*d*/, hn::Vec<D> x) {
  return hn::NegMulAdd(x, x, x);
}

void lstm_row(std::size_t hidden, const float* recurrent, const float* before, float* gates, float* c, float* h) {
  for_each_vector(hidden, [&](auto d, std::size_t at) HWY_ATTR {
    const auto sum = [&](std::size_t gate) HWY_ATTR {
      const std::size_t place = gate * hidden + at;
      return hn::Add(hn::LoadU(d, gates + place), hn::LoadU(d, recurrent + place));
    };
    const auto input = sigmoid(d, sum(0));
    const auto forget = sigmoid(d, sum(1));
    const auto candidate = tanh_of(d, sum(2));
    const auto output = sigmoid(d, sum(3));
    const auto next = hn::MulAdd(forget, hn::LoadU(d, before + at), hn::Mul(input, candidate));
    hn::StoreU(input, d, gates + at);
    hn::StoreU(forget, d, gates + hidden + at);
    hn::StoreU(candidate, d, gates + 2 * hidden + at);
    hn::StoreU(output, d, gates + 3 * hidden + at);
    hn::StoreU(next, d, c + at);
    hn::StoreU(hn::Mul(output, tanh_of(d, next)), d, h + at);
  });
}

void lstm_row_gradient(std::size_t hidden, const float* before, const float* c, const float* grad_h, float* grad_c,
                       float* gates) {
  for_each_vector(hidden, [&](auto d, std::size_t at) HWY_ATTR {
    const auto input = hn::LoadU(d, gates + at);
    const auto forget = hn::LoadU(d, gates + hidden + at);
    const auto candidate = hn::LoadU(d, gates + 2 * hidden + at);
    const auto output = hn::LoadU(d, gates + 3 * hidden + at);
    const auto bent = tanh_of(d, hn::LoadU(d, c + at));
    const auto of_h = hn::LoadU(d, grad_h + at);
    const auto of_c = hn::MulAdd(hn::Mul(of_h, output), one_less_square(d, bent), hn::LoadU(d, grad_c + at));
    const auto of_input = hn::Mul(of_c, candidate);
    const auto of_forget = hn::Mul(of_c, hn::LoadU(d, before + at));
    hn::StoreU(hn::Mul(of_input, sigmoid_slope(d, input)), d, gates + at);
    hn::StoreU(hn::Mul(of_forget, sigmoid_slope(d, forget)), d, gates + hidden + at);
    hn::StoreU(hn::Mul(hn::Mul(of_c, input), one_less_square(d, candidate)), d, gates + 2 * hidden + at);
    hn::StoreU(hn::Mul(hn::Mul(of_h, bent), sigmoid_slope(d, output)), d, gates + 3 * hidden + at);
    hn::StoreU(hn::Mul(of_c, forget), d, grad_c + at);
  });
}

void lstm_rows(std::size_t rows, std::size_t hidden, const float* recurrent, const float* before, float* gates,
               float* c, float* h) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * hidden;
    lstm_row(hidden, recurrent + 4 * at, before + at, gates + 4 * at, c + at, h + at);
  }
}

void lstm_rows_gradient(std::size_t rows, std::size_t hidden, const float* before, const float* c, const float* grad_h,
                        float* grad_c, float* gates) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * hidden;
    lstm_row_gradient(hidden, before + at, c + at, grad_h + at, grad_c + at, gates + 4 * at);
  }
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(lstm_rows);
HWY_EXPORT(lstm_rows_gradient);

void cpu_stream::lstm_forward(std::size_t rows, std::size_t hidden, const float* recurrent, const float* before,
                              float* gates, float* c, float* h) {
  HWY_DYNAMIC_DISPATCH(lstm_rows)(rows, hidden, recurrent, before, gates, c, h);
}

void cpu_stream::lstm_backward(std::size_t rows, std::size_t hidden, const float* before, const float* c,
                               const float* grad_h, float* grad_c, float* gates) {
  HWY_DYNAMIC_DISPATCH(lstm_rows_gradient)(rows, hidden, before, c, grad_h, grad_c, gates);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
