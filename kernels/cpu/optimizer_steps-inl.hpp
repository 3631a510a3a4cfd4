// One optimizer step on one vector of weights: the only place where the formulas of optimizer.hpp are written, so that
// dense and row-wise updates give the same bits. `first` and `second` are the optimizer's state.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP
#undef TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP
#else
#define TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "kernels/optimizer.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What each step has in common: where the weights are, and weight decay.
struct step_base {
  update_constants c;
  float* weights;
  optimizer_state_view state;

  template <class D>
  HWY_INLINE hn::Vec<D> decayed(D d, hn::Vec<D> grad, hn::Vec<D> weight) const {
    // With a decay of 0 the product would still turn an infinite weight's gradient into NaN.
    return c.weight_decay == 0.0F ? grad : hn::MulAdd(hn::Set(d, c.weight_decay), weight, grad);
  }
};

struct sgd_step : step_base {
  static constexpr std::size_t state_count = 0;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = hn::LoadU(d, weights + at);
    grad = decayed(d, grad, weight);
    hn::StoreU(hn::NegMulAdd(hn::Set(d, c.lr), grad, weight), d, weights + at);
  }
};

struct momentum_step : step_base {
  static constexpr std::size_t state_count = 1;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = hn::LoadU(d, weights + at);
    const auto momentum = hn::Set(d, c.momentum);
    grad = decayed(d, grad, weight);
    const auto velocity = hn::MulAdd(momentum, hn::LoadU(d, state.first + at), grad);
    hn::StoreU(velocity, d, state.first + at);
    const auto direction = c.nesterov ? hn::MulAdd(momentum, velocity, grad) : velocity;
    hn::StoreU(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

struct adagrad_step : step_base {
  static constexpr std::size_t state_count = 1;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = hn::LoadU(d, weights + at);
    grad = decayed(d, grad, weight);
    const auto squares = hn::MulAdd(grad, grad, hn::LoadU(d, state.first + at));
    hn::StoreU(squares, d, state.first + at);
    const auto direction = hn::Div(grad, hn::Add(hn::Sqrt(squares), hn::Set(d, c.eps)));
    hn::StoreU(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

struct adam_step : step_base {
  static constexpr std::size_t state_count = 2;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = hn::LoadU(d, weights + at);
    grad = decayed(d, grad, weight);
    const auto mean =
        hn::MulAdd(hn::Set(d, c.beta1), hn::LoadU(d, state.first + at), hn::Mul(hn::Set(d, c.one_minus_beta1), grad));
    const auto square = hn::MulAdd(hn::Set(d, c.beta2), hn::LoadU(d, state.second + at),
                                   hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(grad, grad)));
    hn::StoreU(mean, d, state.first + at);
    hn::StoreU(square, d, state.second + at);
    const auto deviation = hn::Div(hn::Sqrt(square), hn::Set(d, c.bias_correction2_sqrt));
    const auto direction = hn::Div(mean, hn::Add(deviation, hn::Set(d, c.eps)));
    hn::StoreU(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

/// Calls `body` with the step that `c` describes.
template <class Body>
HWY_INLINE auto with_step(const update_constants& c, float* weights, optimizer_state_view state, const Body& body) {
  if (c.kind == optimizer_kind::adagrad) return body(adagrad_step{{c, weights, state}});
  if (c.kind == optimizer_kind::adam) return body(adam_step{{c, weights, state}});
  if (c.momentum != 0.0F) return body(momentum_step{{c, weights, state}});
  return body(sgd_step{{c, weights, state}});
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
