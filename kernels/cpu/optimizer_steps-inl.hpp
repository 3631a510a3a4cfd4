// One optimizer step on one vector of weights. The formulas of optimizer.hpp are written only here, so that dense and
// row-wise updates give the same bits. `first` and `second` are the optimizer's state.

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
#include "kernels/optimizer.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Adds weight decay. Without this branch, a decay of 0 would turn the gradient of an infinite weight into NaN.
template <class D>
HWY_INLINE hn::Vec<D> decayed(D d, const update_constants& c, hn::Vec<D> grad, hn::Vec<D> weight) {
  return c.weight_decay == 0.0F ? grad : hn::MulAdd(hn::Set(d, c.weight_decay), weight, grad);
}

// A rule updates its state and returns the direction of the step for a gradient that includes weight decay.

struct sgd_rule {
  static constexpr std::size_t state_count = 0;

  template <class D>
  static HWY_INLINE hn::Vec<D> direction(D, const update_constants&, optimizer_state_view, std::size_t,
                                         hn::Vec<D> grad) {
    return grad;
  }
};

struct momentum_rule {
  static constexpr std::size_t state_count = 1;

  template <class D>
  static HWY_INLINE hn::Vec<D> direction(D d, const update_constants& c, optimizer_state_view state, std::size_t at,
                                         hn::Vec<D> grad) {
    const auto momentum = hn::Set(d, c.momentum);
    const auto velocity = hn::MulAdd(momentum, hn::LoadU(d, state.first + at), grad);
    hn::StoreU(velocity, d, state.first + at);
    return c.nesterov ? hn::MulAdd(momentum, velocity, grad) : velocity;
  }
};

struct adagrad_rule {
  static constexpr std::size_t state_count = 1;

  template <class D>
  static HWY_INLINE hn::Vec<D> direction(D d, const update_constants& c, optimizer_state_view state, std::size_t at,
                                         hn::Vec<D> grad) {
    const auto squares = hn::MulAdd(grad, grad, hn::LoadU(d, state.first + at));
    hn::StoreU(squares, d, state.first + at);
    return hn::Div(grad, hn::Add(hn::Sqrt(squares), hn::Set(d, c.eps)));
  }
};

struct adam_rule {
  static constexpr std::size_t state_count = 2;

  template <class D>
  static HWY_INLINE hn::Vec<D> direction(D d, const update_constants& c, optimizer_state_view state, std::size_t at,
                                         hn::Vec<D> grad) {
    const auto mean =
        hn::MulAdd(hn::Set(d, c.beta1), hn::LoadU(d, state.first + at), hn::Mul(hn::Set(d, c.one_minus_beta1), grad));
    const auto square = hn::MulAdd(hn::Set(d, c.beta2), hn::LoadU(d, state.second + at),
                                   hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(grad, grad)));
    hn::StoreU(mean, d, state.first + at);
    hn::StoreU(square, d, state.second + at);
    const auto deviation = hn::Div(hn::Sqrt(square), hn::Set(d, c.bias_correction2_sqrt));
    return hn::Div(mean, hn::Add(deviation, hn::Set(d, c.eps)));
  }
};

/// A step by a rule on weights of type `Number`.
template <class Number, class Rule>
struct weight_step {
  static constexpr bool in_f32 = std::is_same_v<Number, float>;
  static constexpr std::size_t state_count = Rule::state_count;

  update_constants c;
  Number* weights;
  optimizer_state_view state;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t at, hn::Vec<D> grad) const {
    const auto weight = load_numbers(d, weights + at);
    const auto direction = Rule::direction(d, c, state, at, decayed(d, c, grad, weight));
    store_numbers(hn::NegMulAdd(hn::Set(d, c.lr), direction, weight), d, weights + at);
  }
};

/// Row-wise Adagrad on one row. Adds weight decay to `grad`; `sum` is the row's accumulator.
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
  for_each_vector(dim, [&](auto d, std::size_t i) HWY_ATTR {
    const auto weight = load_numbers(d, weights + i);
    store_numbers(hn::NegMulAdd(hn::Set(d, rate), hn::LoadU(d, grad + i), weight), d, weights + i);
  });
}

/// Calls `body` with the step that `c` describes. Requires: neither rowwise_adagrad nor own.
template <class Number, class Body>
HWY_INLINE auto with_step(const update_constants& c, Number* weights, optimizer_state_view state, const Body& body) {
  if (c.kind == optimizer_kind::adagrad) return body(weight_step<Number, adagrad_rule>{c, weights, state});
  if (c.kind == optimizer_kind::adam) return body(weight_step<Number, adam_rule>{c, weights, state});
  if (c.momentum != 0.0F) return body(weight_step<Number, momentum_rule>{c, weights, state});
  return body(weight_step<Number, sgd_rule>{c, weights, state});
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
