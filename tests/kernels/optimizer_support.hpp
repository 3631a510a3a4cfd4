// The optimizers' formulas in double, and their test settings.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/optimizer.hpp"

namespace troupe::kernels::test {

struct optimizer_case {
  std::string name;
  optimizer_kind kind;
  double lr = 0.1;
  double weight_decay = 0;
  double momentum = 0;
  bool nesterov = false;
};

inline void PrintTo(const optimizer_case& one, std::ostream* out) { *out << one.name; }

inline constexpr double beta1 = 0.9;
inline constexpr double beta2 = 0.999;
inline constexpr double epsilon = 1e-8;

inline std::vector<optimizer_case> optimizer_cases() {
  return {{"sgd", optimizer_kind::sgd},
          {"sgd_decay", optimizer_kind::sgd, 0.1, 0.02},
          {"momentum", optimizer_kind::sgd, 0.1, 0, 0.9},
          {"momentum_decay", optimizer_kind::sgd, 0.1, 0.02, 0.9},
          {"nesterov", optimizer_kind::sgd, 0.1, 0, 0.9, true},
          {"nesterov_decay", optimizer_kind::sgd, 0.1, 0.02, 0.9, true},
          {"adagrad", optimizer_kind::adagrad},
          {"adagrad_decay", optimizer_kind::adagrad, 0.1, 0.02},
          {"adam", optimizer_kind::adam, 0.01},
          {"adam_decay", optimizer_kind::adam, 0.01, 0.02}};
}

/// The constants of step `t`, counted from 1.
inline update_constants constants_of(const optimizer_case& c, int t) {
  update_constants constants;
  constants.kind = c.kind;
  constants.lr = static_cast<float>(c.kind == optimizer_kind::adam ? c.lr / (1 - std::pow(beta1, t)) : c.lr);
  constants.weight_decay = static_cast<float>(c.weight_decay);
  constants.momentum = static_cast<float>(c.momentum);
  constants.nesterov = c.nesterov;
  constants.eps = static_cast<float>(epsilon);
  constants.beta1 = static_cast<float>(beta1);
  constants.beta2 = static_cast<float>(beta2);
  constants.one_minus_beta1 = static_cast<float>(1 - beta1);
  constants.one_minus_beta2 = static_cast<float>(1 - beta2);
  constants.bias_correction2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(beta2, t)));
  return constants;
}

/// Weights and state; `view` passes only the state that the optimizer uses.
template <class Number>
struct optimized {
  std::vector<Number> weights;
  std::vector<Number> first;
  std::vector<Number> second;

  optimized(const optimizer_case& c, const std::vector<float>& initial)
      : weights(initial.begin(), initial.end()),
        first(c.kind != optimizer_kind::sgd || c.momentum != 0 ? initial.size() : 0),
        second(c.kind == optimizer_kind::adam ? initial.size() : 0) {}

  optimizer_state_view view(std::size_t from = 0) {
    return {first.empty() ? nullptr : first.data() + from, second.empty() ? nullptr : second.data() + from};
  }
};

/// Step `t` for element `i`, as in PyTorch's documentation.
inline void reference_step(const optimizer_case& c, int t, optimized<double>& state, std::size_t i, double grad) {
  double& weight = state.weights[i];
  grad += c.weight_decay * weight;
  switch (c.kind) {
    case optimizer_kind::sgd:
      if (c.momentum != 0) {
        state.first[i] = c.momentum * state.first[i] + grad;
        grad = c.nesterov ? grad + c.momentum * state.first[i] : state.first[i];
      }
      weight -= c.lr * grad;
      break;
    case optimizer_kind::adagrad:
      state.first[i] += grad * grad;
      weight -= c.lr * grad / (std::sqrt(state.first[i]) + epsilon);
      break;
    case optimizer_kind::adam: {
      state.first[i] = beta1 * state.first[i] + (1 - beta1) * grad;
      state.second[i] = beta2 * state.second[i] + (1 - beta2) * grad * grad;
      const double mean = state.first[i] / (1 - std::pow(beta1, t));
      const double square = state.second[i] / (1 - std::pow(beta2, t));
      weight -= c.lr * mean / (std::sqrt(square) + epsilon);
      break;
    }
    case optimizer_kind::rowwise_adagrad:
    case optimizer_kind::own:
      ADD_FAILURE() << "has no formula for one weight";
  }
}

}  // namespace troupe::kernels::test
