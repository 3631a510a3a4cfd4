// GELU, exact: by the normal distribution function, up to a few roundings.

#include <iterator>

#include "kernels/cpu/cpu_stream.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// The polynomial p with p(s) = (1 + 2z) exp(z^2) erfc(z) for 0 <= z <= 10 and s = (z - 3) / (z + 3), to a relative
/// error of 3e-9: the Chebyshev series of that function, the constant first.
constexpr float tail_polynomial[] = {1.2530080F,    -0.13562115F,    -0.047562338F,  0.12964647F,
                                     -0.11927190F,  0.068294771F,    -0.023793271F,  0.0025735907F,
                                     0.0019969374F, -0.00078943849F, -0.00027323960F};

/// The normal distribution at x: its distribution function Phi, and exp(-x^2 / 2).
template <class D>
struct normal_at {
  hn::Vec<D> function;
  hn::Vec<D> bell;
};

template <class D>
HWY_INLINE normal_at<D> normal(D d, hn::Vec<D> x) {
  constexpr float root_of_2 = 1.41421356F;
  const auto one = hn::Set(d, 1.0F);
  const auto bell = hn::Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F)));
  // z sqrt(2), limited to where erfc(z) is 0 in float32.
  const auto size = hn::Min(hn::Abs(x), hn::Set(d, 14.0F));
  const auto center = hn::Set(d, 3 * root_of_2);
  const auto s = hn::Div(hn::Sub(size, center), hn::Add(size, center));
  constexpr std::size_t terms = std::size(tail_polynomial);
  auto p = hn::Set(d, tail_polynomial[terms - 1]);
  for (std::size_t i = terms - 1; i > 0; --i) p = hn::MulAdd(p, s, hn::Set(d, tail_polynomial[i - 1]));
  const auto scale = hn::MulAdd(size, hn::Set(d, root_of_2), one);
  const auto tail = hn::Div(hn::Mul(hn::Mul(bell, hn::Set(d, 0.5F)), p), scale);  // Phi(-|x|)
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), bell};
}

// NaN stays NaN, since both results multiply by x.

void gelu(std::size_t count, const float* x, float* y) {
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    hn::StoreU(hn::Mul(value, normal(d, value).function), d, y + i);
  });
}

void gelu_gradient(std::size_t count, const float* x, const float* grad_y, float* grad_x) {
  constexpr float density_at_0 = 0.398942280F;
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    const auto at = normal(d, value);
    const auto density = hn::Mul(at.bell, hn::Set(d, density_at_0));
    hn::StoreU(hn::Mul(hn::LoadU(d, grad_y + i), hn::MulAdd(value, density, at.function)), d, grad_x + i);
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(gelu);
HWY_EXPORT(gelu_gradient);

void cpu_stream::gelu_forward(std::size_t count, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(gelu)(count, x, y); }

void cpu_stream::gelu_backward(std::size_t count, const float* x, const float* grad_y, float* grad_x) {
  HWY_DYNAMIC_DISPATCH(gelu_gradient)(count, x, grad_y, grad_x);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
