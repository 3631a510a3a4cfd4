// Fully connected layers.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/gpu/measurements.hpp"

namespace troupe::bench {
namespace {

constexpr std::array<const char*, 3> precision_names = {"f32", "tf32", "bf16"};

/// A fully connected layer, and for each turn a batch of inputs and of outputs or their gradients.
struct layer {
  layer(kernels::stream& stream, std::size_t batch_size, std::size_t inputs, std::size_t outputs)
      : on(stream),
        batch(batch_size),
        in(inputs),
        out(outputs),
        x(numbers(on, turns * batch * in)),
        weight(numbers(on, in * out)),
        bias(numbers(on, out)),
        y(numbers(on, turns * batch * out)),
        grad_weight(numbers(on, in * out)),
        grad_bias(numbers(on, out)) {}

  void forward(std::size_t turn) {
    on.linear_forward(batch, in, out, x.data() + turn * batch * in, weight.data(), bias.data(),
                      kernels::activation::relu, y.data() + turn * batch * out);
  }
  void backward_input(std::size_t turn) {
    on.linear_backward_input(batch, in, out, weight.data(), y.data() + turn * batch * out,
                             x.data() + turn * batch * in);
  }
  void backward_parameters(std::size_t turn) {
    on.linear_backward_parameters(batch, in, out, x.data() + turn * batch * in, y.data() + turn * batch * out,
                                  grad_weight.data(), grad_bias.data());
  }

  /// Compares the first number of each result; the parameters' gradient first, since the others overwrite its factors.
  void check(double rounding) {
    host_sum weights;
    for (std::size_t b = 0; b < batch; ++b) weights.add(double{number_at(b * out)} * number_at(b * in));
    backward_parameters(0);
    expect("weights' gradient", number_on(on, grad_weight.data()), weights.value, weights.tolerance(rounding));
    host_sum output;
    output.add(number_at(0));
    for (std::size_t i = 0; i < in; ++i) output.add(double{number_at(i)} * number_at(i));
    forward(0);
    expect("layer's output", number_on(on, y.data()), std::max(output.value, 0.0), output.tolerance(rounding));
    host_sum inputs;
    for (std::size_t o = 0; o < out; ++o) inputs.add(double{number_at(batch * out + o)} * number_at(o * in));
    backward_input(1);
    expect("inputs' gradient", number_on(on, x.data() + batch * in), inputs.value, inputs.tolerance(rounding));
  }

  kernels::stream& on;
  std::size_t batch;
  std::size_t in;
  std::size_t out;
  kernels::device_array<float> x;
  kernels::device_array<float> weight;
  kernels::device_array<float> bias;
  kernels::device_array<float> y;
  kernels::device_array<float> grad_weight;
  kernels::device_array<float> grad_bias;
};

}  // namespace

const char* name_of(matmul_precision precision) { return precision_names[static_cast<std::size_t>(precision)]; }

void measure_layers(kernels::device& device, const sizes& s, const report& to, matmul_precision precision) {
  const auto on = device.make_stream(precision);
  double limit = 0;
  const auto measure = [&](layer& l, const char* pass, void (layer::*run)(std::size_t)) {
    const double seconds = seconds_of(*on, [&](std::size_t turn) { (l.*run)(turn); });
    const double rate = 2 * static_cast<double>(l.batch) * static_cast<double>(l.in * l.out) / seconds / 1e12;
    to.add({"linear", fmt::format("{} {} to {}, {} {}", l.batch, l.in, l.out, name_of(precision), pass), seconds, rate,
            "TFLOP/s", limit});
    return rate;
  };
  {
    layer large(*on, s.side, s.side, s.side);
    large.check(rounding_of(precision));
    limit = measure(large, "forward", &layer::forward);
  }
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{64, 512}, {512, 256}}) {
    layer l(*on, s.batch, in, out);
    l.check(rounding_of(precision));
    measure(l, "forward", &layer::forward);
    measure(l, "inputs", &layer::backward_input);
    measure(l, "parameters", &layer::backward_parameters);
  }
}

}  // namespace troupe::bench
