// One optimizer step on one vector of weights: the only place where the formulas of optimizer.hpp are written, so that
// dense and row by row updates give the same bits. `first` and `second` are the optimizer's state.

// Included once per instruction set: the guard toggles with Highway's.
#if defined(TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP
#undef TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP
#else
#define TROUPE_KERNELS_CPU_OPTIMIZER_STEPS_INL_HPP
#endif

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"
#include "kernels/cpu/row_numbers-inl.hpp"
#include "kernels/cpu/squares-inl.hpp"
#include "kernels/optimizer.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// With weight decay. With a decay of 0 the product would still turn an infinite weight's gradient into NaN.
template <class D>
HWY_INLINE hn::Vec<D> decayed(D d, const update_constants& c, hn::Vec<D> grad, hn::Vec<D> weight) {
  return c.weight_decay == 0.0F ? grad : hn::MulAdd(hn::Set(d, c.weight_decay), weight, grad);
}

/// What each step has in common: where the weights are, and how they are stored.
template <class Number>
struct step_base {
  static constexpr bool in_f32 = std::is_same_v<Number, float>;

  update_constants c;
  Number* weights;
  optimizer_state_view state;
};

template <class Number>
struct sgd_step : step_base<Number> {
  using step_base<Number>::c, step_base<Number>::weights, step_base<Number>::state;
  static constexpr std::size_t state_count = 0;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = load_numbers(d, weights + at);
    grad = decayed(d, c, grad, weight);
    store_numbers(hn::NegMulAdd(hn::Set(d, c.lr), grad, weight), d, weights + at);
  }
};

template <class Number>
struct momentum_step : step_base<Number> {
  using step_base<Number>::c, step_base<Number>::weights, step_base<Number>::state;
  static constexpr std::size_t state_count = 1;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = load_numbers(d, weights + at);
    const auto momentum = hn::Set(d, c.momentum);
    grad = decayed(d, c, grad, weight);
    const auto velocity = hn::MulAdd(momentum, hn::LoadU(d, state.first + at), grad);
    hn::StoreU(velocity, d, state.first + at);
    const auto direction = c.nesterov ? hn::MulAdd(momentum, velocity, grad) : velocity;
    store_numbers(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

template <class Number>
struct adagrad_step : step_base<Number> {
  using step_base<Number>::c, step_base<Number>::weights, step_base<Number>::state;
  static constexpr std::size_t state_count = 1;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = load_numbers(d, weights + at);
    grad = decayed(d, c, grad, weight);
    const auto squares = hn::MulAdd(grad, grad, hn::LoadU(d, state.first + at));
    hn::StoreU(squares, d, state.first + at);
    const auto direction = hn::Div(grad, hn::Add(hn::Sqrt(squares), hn::Set(d, c.eps)));
    store_numbers(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

template <class Number>
struct adam_step : step_base<Number> {
  using step_base<Number>::c, step_base<Number>::weights, step_base<Number>::state;
  static constexpr std::size_t state_count = 2;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = load_numbers(d, weights + at);
    grad = decayed(d, c, grad, weight);
    const auto mean =
        hn::MulAdd(hn::Set(d, c.beta1), hn::LoadU(d, state.first + at), hn::Mul(hn::Set(d, c.one_minus_beta1), grad));
    const auto square = hn::MulAdd(hn::Set(d, c.beta2), hn::LoadU(d, state.second + at),
                                   hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(grad, grad)));
    hn::StoreU(mean, d, state.first + at);
    hn::StoreU(square, d, state.second + at);
    const auto deviation = hn::Div(hn::Sqrt(square), hn::Set(d, c.bias_correction2_sqrt));
    const auto direction = hn::Div(mean, hn::Add(deviation, hn::Set(d, c.eps)));
    store_numbers(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

/// Row-wise Adagrad on one row, whose gradient is changed by weight decay; `sum` is the row's accumulator.
template <class Number>
HWY_INLINE void rowwise_adagrad(const update_constants& c, std::size_t dim, Number* weights, float* sum, float* grad) {
  if (c.weight_decay != 0.0F) {
    for_each_block<1>(dim, [&](auto d, auto, std::size_t at) HWY_ATTR {
      hn::StoreU(decayed(d, c, hn::LoadU(d, grad + at), load_numbers(d, weights + at)), d, grad + at);
    });
  }
  *sum += static_cast<float>(sum_of_squares(dim, grad) / static_cast<double>(dim));
  const double divisor = std::sqrt(static_cast<double>(*sum)) + static_cast<double>(c.eps);
  const auto rate = static_cast<float>(static_cast<double>(c.lr) / divisor);
  for_each_block<4>(dim, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    for (std::size_t v = 0; v < vector_count; ++v) {
      const std::size_t i = at + v * hn::Lanes(d);
      const auto weight = load_numbers(d, weights + i);
      store_numbers(hn::NegMulAdd(hn::Set(d, rate), hn::LoadU(d, grad + i), weight), d, weights + i);
    }
  });
}

/// Calls `body` with the step that `c` describes, of those that take each weight by itself.
template <class Number, class Body>
HWY_INLINE auto with_step(const update_constants& c, Number* weights, optimizer_state_view state, const Body& body) {
  if (c.kind == optimizer_kind::adagrad) return body(adagrad_step<Number>{{c, weights, state}});
  if (c.kind == optimizer_kind::adam) return body(adam_step<Number>{{c, weights, state}});
  if (c.momentum != 0.0F) return body(momentum_step<Number>{{c, weights, state}});
  return body(sgd_step<Number>{{c, weights, state}});
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
