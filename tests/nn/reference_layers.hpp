// Layers in plain double arithmetic, directly from their formulas, one number of a sample after the other: the
// reference for tests of layers and networks.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "kernels/random_bits.hpp"
#include "nn/layer_spec.hpp"

namespace troupe::nn {

/// A batch of samples.
struct reference_batch {
  troupe::shape shape;
  std::size_t size = 0;
  std::vector<double> numbers;

  std::size_t width() const { return numbers.size() / size; }
};

/// Computes a layer in training mode from `parameters`, which it advances past its own. `key`: the layer's.
reference_batch reference_layer(const layer_spec& spec, const reference_batch& x, const double*& parameters,
                                std::uint64_t key);

/// y[b, o] = the sum of weight[o, i] x[b, i], plus the bias unless it is null.
inline std::vector<double> reference_product(std::size_t size, std::size_t in, std::size_t out,
                                             const std::vector<double>& x, const double* weight, const double* bias) {
  std::vector<double> y(size * out);
  for (std::size_t b = 0; b < size; ++b)
    for (std::size_t o = 0; o < out; ++o) {
      double sum = bias != nullptr ? bias[o] : 0;
      for (std::size_t i = 0; i < in; ++i) sum += weight[o * in + i] * x[b * in + i];
      y[b * out + o] = sum;
    }
  return y;
}

inline reference_batch reference_of(const linear::options& of, const reference_batch& x, const double*& parameters,
                                    std::uint64_t /*key*/) {
  const std::size_t in = x.shape[x.shape.dimensions() - 1], out = of.out_features;
  const double* const bias = of.bias ? parameters + out * in : nullptr;
  reference_batch y{x.shape.dimensions() == 2 ? troupe::shape(x.shape[0], out) : troupe::shape(out), x.size,
                    reference_product(x.numbers.size() / in, in, out, x.numbers, parameters, bias)};
  parameters += out * in + (of.bias ? out : 0);
  return y;
}

inline reference_batch reference_of(const relu::options& /*of*/, reference_batch y, const double*& /*parameters*/,
                                    std::uint64_t /*key*/) {
  for (double& one : y.numbers) one = std::max(one, 0.0);
  return y;
}

inline reference_batch reference_of(const gelu::options& /*of*/, reference_batch y, const double*& /*parameters*/,
                                    std::uint64_t /*key*/) {
  for (double& one : y.numbers) one *= (1 + std::erf(one / std::sqrt(2.0))) / 2;
  return y;
}

inline reference_batch reference_of(const flatten::options& /*of*/, reference_batch y, const double*& /*parameters*/,
                                    std::uint64_t /*key*/) {
  y.shape = {y.width()};
  return y;
}

inline reference_batch reference_of(const conv2d::options& of, const reference_batch& x, const double*& parameters,
                                    std::uint64_t /*key*/) {
  const auto channels = x.shape[0], height = x.shape[1], width = x.shape[2], kernel = of.kernel;
  const std::size_t extent = of.dilation * (kernel - 1) + 1;
  const std::size_t out_height = (height + 2 * of.padding - extent) / of.stride + 1;
  const std::size_t out_width = (width + 2 * of.padding - extent) / of.stride + 1;
  const std::size_t of_group = channels / of.groups;
  const std::size_t weights = of.out_channels * of_group * kernel * kernel;
  reference_batch y{{of.out_channels, out_height, out_width}, x.size, {}};
  for (std::size_t b = 0; b < x.size; ++b)
    for (std::size_t o = 0; o < of.out_channels; ++o)
      for (std::size_t row = 0; row < out_height; ++row)
        for (std::size_t column = 0; column < out_width; ++column) {
          double sum = of.bias ? parameters[weights + o] : 0;
          const std::size_t first = o / (of.out_channels / of.groups) * of_group;
          for (std::size_t c = 0; c < of_group; ++c)
            for (std::size_t i = 0; i < kernel; ++i)
              for (std::size_t j = 0; j < kernel; ++j) {
                const std::size_t r = row * of.stride + i * of.dilation;  // in the padded image
                const std::size_t s = column * of.stride + j * of.dilation;
                if (r < of.padding || r >= height + of.padding || s < of.padding || s >= width + of.padding) continue;
                sum += parameters[((o * of_group + c) * kernel + i) * kernel + j] *
                       x.numbers[((b * channels + first + c) * height + r - of.padding) * width + s - of.padding];
              }
          y.numbers.push_back(sum);
        }
  parameters += weights + (of.bias ? of.out_channels : 0);
  return y;
}

/// Pools the largest number of each window if `max`, otherwise the mean.
inline reference_batch reference_pool2d(const reference_batch& x, std::size_t kernel_height, std::size_t kernel_width,
                                        std::size_t stride, bool max) {
  const auto channels = x.shape[0], height = x.shape[1], width = x.shape[2];
  const std::size_t out_height = (height - kernel_height) / stride + 1, out_width = (width - kernel_width) / stride + 1;
  reference_batch y{{channels, out_height, out_width}, x.size, {}};
  for (std::size_t image = 0; image < x.size * channels; ++image)
    for (std::size_t row = 0; row < out_height; ++row)
      for (std::size_t column = 0; column < out_width; ++column) {
        double sum = 0, largest = -std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < kernel_height; ++i)
          for (std::size_t j = 0; j < kernel_width; ++j) {
            const double one = x.numbers[(image * height + row * stride + i) * width + column * stride + j];
            sum += one;
            largest = std::max(largest, one);
          }
        y.numbers.push_back(max ? largest : sum / static_cast<double>(kernel_height * kernel_width));
      }
  return y;
}

inline reference_batch reference_of(const max_pool2d::options& of, const reference_batch& x,
                                    const double*& /*parameters*/, std::uint64_t /*key*/) {
  return reference_pool2d(x, of.kernel, of.kernel, of.stride == 0 ? of.kernel : of.stride, true);
}

inline reference_batch reference_of(const avg_pool2d::options& of, const reference_batch& x,
                                    const double*& /*parameters*/, std::uint64_t /*key*/) {
  return reference_pool2d(x, of.kernel, of.kernel, of.stride == 0 ? of.kernel : of.stride, false);
}

inline reference_batch reference_of(const global_avg_pool2d::options& /*of*/, const reference_batch& x,
                                    const double*& /*parameters*/, std::uint64_t /*key*/) {
  reference_batch y = reference_pool2d(x, x.shape[1], x.shape[2], 1, false);
  y.shape = {x.shape[0]};
  return y;
}

/// Mean and variance (divided by the count) of some numbers.
struct reference_moments {
  double mean = 0;
  double variance = 0;

  explicit reference_moments(const std::vector<double>& of) {
    for (const double one : of) mean += one / static_cast<double>(of.size());
    for (const double one : of) variance += (one - mean) * (one - mean) / static_cast<double>(of.size());
  }
};

/// Returns the indices of a channel's numbers.
inline std::vector<std::size_t> places_of_channel(const reference_batch& x, std::size_t channel) {
  const std::size_t channels = x.shape[0], area = x.width() / channels;
  std::vector<std::size_t> places;
  for (std::size_t b = 0; b < x.size; ++b)
    for (std::size_t i = 0; i < area; ++i) places.push_back((b * channels + channel) * area + i);
  return places;
}

inline reference_moments moments_of_channel(const reference_batch& x, std::size_t channel) {
  std::vector<double> numbers;
  for (const std::size_t place : places_of_channel(x, channel)) numbers.push_back(x.numbers[place]);
  return reference_moments(numbers);
}

inline reference_batch reference_of(const batch_norm::options& of, const reference_batch& x, const double*& parameters,
                                    std::uint64_t /*key*/) {
  const std::size_t channels = x.shape[0];
  reference_batch y = x;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto moments = moments_of_channel(x, c);
    const double weight = of.scale ? parameters[c] : 1, bias = parameters[(of.scale ? channels : 0) + c];
    for (const std::size_t place : places_of_channel(x, c))
      y.numbers[place] = (x.numbers[place] - moments.mean) / std::sqrt(moments.variance + of.eps) * weight + bias;
  }
  parameters += (of.scale ? 2 : 1) * channels;
  return y;
}

inline reference_batch reference_of(const layer_norm::options& of, const reference_batch& x, const double*& parameters,
                                    std::uint64_t /*key*/) {
  const std::size_t width = x.shape[x.shape.dimensions() - 1];
  reference_batch y = x;
  for (std::size_t b = 0; b < x.numbers.size() / width; ++b) {
    const auto row = x.numbers.begin() + static_cast<std::ptrdiff_t>(b * width);
    const reference_moments moments(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(width)));
    for (std::size_t i = 0; i < width; ++i)
      y.numbers[b * width + i] =
          (row[static_cast<std::ptrdiff_t>(i)] - moments.mean) / std::sqrt(moments.variance + of.eps) * parameters[i] +
          parameters[width + i];
  }
  parameters += 2 * width;
  return y;
}

inline reference_batch reference_of(const low_rank_cross::options& of, const reference_batch& x,
                                    const double*& parameters, std::uint64_t /*key*/) {
  const std::size_t width = x.width();
  reference_batch y = x;
  for (std::size_t k = 0; k < of.layers; ++k) {
    const double* const w = parameters + of.rank * width;
    const double* const b = w + of.rank * width;
    const auto inner = reference_product(x.size, width, of.rank, y.numbers, parameters, nullptr);
    const auto outer = reference_product(x.size, of.rank, width, inner, w, b);
    for (std::size_t i = 0; i < outer.size(); ++i) y.numbers[i] += x.numbers[i] * outer[i];
    parameters = b + width;
  }
  return y;
}

/// `state` [2, size, hidden]: h and then c; before the first step on entry, after the last on return.
inline reference_batch reference_lstm(const lstm::options& of, const reference_batch& x, const double*& parameters,
                                      std::vector<double>& state) {
  const std::size_t hidden = of.hidden;
  const std::size_t steps = of.steps > 0 ? of.steps : x.shape[x.shape.dimensions() - 2], in = x.width() / steps;
  const double* const of_h = parameters + 4 * hidden * in;
  const double* const bias = of_h + 4 * hidden * hidden;
  reference_batch y{of.last ? troupe::shape(hidden) : troupe::shape(steps, hidden), x.size, {}};
  for (std::size_t b = 0; b < x.size; ++b) {
    double* const h = state.data() + b * hidden;
    double* const c = state.data() + (x.size + b) * hidden;
    for (std::size_t t = 0; t < steps; ++t) {
      const auto first = x.numbers.begin() + static_cast<std::ptrdiff_t>((b * steps + t) * in);
      const std::vector<double> now(first, first + static_cast<std::ptrdiff_t>(in));
      auto sums = reference_product(1, in, 4 * hidden, now, parameters, bias);
      const auto more = reference_product(1, hidden, 4 * hidden, {h, h + hidden}, of_h, bias + 4 * hidden);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
      const auto gate = [&](std::size_t g, std::size_t j) { return 1 / (1 + std::exp(-sums[g * hidden + j])); };
      for (std::size_t j = 0; j < hidden; ++j) {
        c[j] = gate(1, j) * c[j] + gate(0, j) * std::tanh(sums[2 * hidden + j]);
        h[j] = gate(3, j) * std::tanh(c[j]);
      }
      if (!of.last || t + 1 == steps) y.numbers.insert(y.numbers.end(), h, h + hidden);
    }
  }
  parameters = bias + 8 * hidden;
  return y;
}

inline reference_batch reference_of(const lstm::options& of, const reference_batch& x, const double*& parameters,
                                    std::uint64_t /*key*/) {
  std::vector<double> state(2 * x.size * of.hidden, 0.0);
  return reference_lstm(of, x, parameters, state);
}

inline reference_batch reference_of(const dropout::options& of, const reference_batch& x, const double*& /*parameters*/,
                                    std::uint64_t key) {
  reference_batch y = x;
  for (std::size_t b = 0; b < x.size; ++b)
    for (std::size_t i = 0; i < x.width(); ++i) {
      const auto bits = kernels::random_bits(kernels::random_bits(key, b), i) >> 32;
      const bool is_dropped = static_cast<double>(bits) < std::floor(of.rate * 4294967296.0);
      y.numbers[b * x.width() + i] *= is_dropped ? 0 : 1 / (1 - of.rate);
    }
  return y;
}

inline reference_batch reference_of(const residual::options& of, const reference_batch& x, const double*& parameters,
                                    std::uint64_t key) {
  reference_batch y = x;
  for (std::size_t j = 0; j < of.layers.size(); ++j)
    y = reference_layer(of.layers[j], y, parameters, kernels::random_bits(key, 1 + j));
  for (std::size_t i = 0; i < y.numbers.size(); ++i) y.numbers[i] += x.numbers[i];
  return y;
}

inline reference_batch reference_layer(const layer_spec& spec, const reference_batch& x, const double*& parameters,
                                       std::uint64_t key) {
  return std::visit(
      [&]<class Options>(const Options& options) -> reference_batch {
        if constexpr (requires { reference_of(options, x, parameters, key); })
          return reference_of(options, x, parameters, key);
        else
          throw std::logic_error(std::string(options.kind) + ": its formula is in its own test");
      },
      spec.options);
}

/// Computes the layers one after the other; `key` as in a network's pass.
inline reference_batch reference_layers(const std::vector<layer_spec>& specs, reference_batch x,
                                        const std::vector<double>& parameters, std::uint64_t key) {
  const double* at = parameters.data();
  for (std::size_t i = 0; i < specs.size(); ++i) x = reference_layer(specs[i], x, at, kernels::random_bits(key, i));
  return x;
}

/// The inner product with `grad_y`; a backward pass from `grad_y` gives its gradients.
inline double product(const std::vector<double>& y, const std::vector<float>& grad_y) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(grad_y[i]);
  return sum;
}

/// Returns the central differences of `value` with respect to each of `numbers`.
template <class Value>
std::vector<double> central_differences(std::vector<double> numbers, const Value& value) {
  constexpr double h = 1e-6;
  std::vector<double> all;
  for (double& one : numbers) {
    const double kept = one;
    one = kept + h;
    const double above = value(numbers);
    one = kept - h;
    const double below = value(numbers);
    one = kept;
    all.push_back((above - below) / (2 * h));
  }
  return all;
}

}  // namespace troupe::nn
