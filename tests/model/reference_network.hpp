// A multi-layer perceptron in plain double arithmetic, and its gradients by central differences: the reference for
// tests of layers and networks.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace troupe::model {

/// Linear layers of these widths, with ReLU between them; parameters are laid out as in `mlp`.
struct reference_network {
  std::vector<std::size_t> widths;

  /// The outputs [batch, last width] of x [batch, first width].
  std::vector<double> forward(std::size_t batch, const std::vector<double>& parameters, std::vector<double> x) const {
    const double* weight = parameters.data();
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      const std::size_t in = widths[layer];
      const std::size_t out = widths[layer + 1];
      const double* bias = weight + out * in;
      std::vector<double> y(batch * out);
      for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t o = 0; o < out; ++o) {
          double sum = bias[o];
          for (std::size_t i = 0; i < in; ++i) sum += weight[o * in + i] * x[b * in + i];
          y[b * out + o] = layer + 2 < widths.size() ? std::max(sum, 0.0) : sum;
        }
      }
      x = std::move(y);
      weight = bias + out;
    }
    return x;
  }

  /// The inner product of the outputs with `grad_y`: its gradients are those of a backward pass from `grad_y`.
  double value(std::size_t batch, const std::vector<double>& parameters, const std::vector<double>& x,
               std::span<const float> grad_y) const {
    const std::vector<double> y = forward(batch, parameters, x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(grad_y[i]);
    return sum;
  }
};

inline std::vector<double> in_double(std::span<const float> numbers) { return {numbers.begin(), numbers.end()}; }

/// Compares with an absolute tolerance below 1 and a relative one above.
inline void expect_near(std::span<const float> actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
}

/// Compares gradients of `net.value` with central differences, at no more than about 200 indices each.
inline void expect_gradients(const reference_network& net, std::size_t batch, std::span<const float> parameters,
                             std::span<const float> x, std::span<const float> grad_y,
                             std::span<const float> grad_parameters, std::span<const float> grad_x, double tolerance) {
  std::vector<double> p = in_double(parameters);
  std::vector<double> from = in_double(x);
  const auto check = [&](std::vector<double>& numbers, std::span<const float> grads, const char* what) {
    constexpr double h = 1e-6;
    ASSERT_EQ(numbers.size(), grads.size());
    const std::size_t stride = numbers.size() / 200 + 1;
    for (std::size_t i = 0; i < numbers.size(); i += stride) {
      const double kept = numbers[i];
      numbers[i] = kept + h;
      const double above = net.value(batch, p, from, grad_y);
      numbers[i] = kept - h;
      const double below = net.value(batch, p, from, grad_y);
      numbers[i] = kept;
      const double expected = (above - below) / (2 * h);
      ASSERT_NEAR(static_cast<double>(grads[i]), expected, tolerance * std::max(1.0, std::abs(expected)))
          << "d/d" << what << "[" << i << "]";
    }
  };
  check(p, grad_parameters, "parameters");
  check(from, grad_x, "x");
}

}  // namespace troupe::model
