// Checks for every layer: a layer's test provides cases and its formula in double.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/device_array.hpp"
#include "nn/layer_spec.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"
#include "tests/nn/passes.hpp"
#include "tests/nn/reference_layers.hpp"

namespace troupe::nn {

inline layer_spec spec_of(const std::string& json) {
  const auto specs = parse_layers("[" + json + "]");
  EXPECT_TRUE(specs.has_value()) << (specs ? "" : specs.error().message);
  return specs ? specs->front() : layer_spec{};
}

inline std::shared_ptr<const module> layer_of(const std::string& json, const troupe::shape& sample) {
  const auto made = make_layers({spec_of(json)}, sample);
  if (!made) throw std::runtime_error(made.error().message);
  return made->front().what;
}

/// Returns the text of the `error` of kind input that `made` throws; "nothing" if it throws nothing.
inline std::string refusal_of(const std::function<void()>& made) {
  try {
    made();
  } catch (const error& e) {
    EXPECT_EQ(e.kind(), error_kind::input);
    return e.what();
  }
  return "nothing";
}

struct layer_case {
  std::string json;
  troupe::shape in;  ///< of a sample
};

/// Returns a layer's output, and advances `parameters` past the layer's own.
using layer_formula = std::function<reference_batch(const reference_batch& x, const double*& parameters)>;

using numbers_source = std::function<std::vector<float>(kernels::test::source_of_numbers&, std::size_t count)>;

inline std::vector<float> any_numbers(kernels::test::source_of_numbers& random, std::size_t count) {
  return random.numbers(count);
}

/// The formula that a layer is compared with, the tolerances, and the inputs.
struct layer_check {
  layer_formula formula;
  double gradient_tolerance = 1e-5;
  /// If true, a gradient's tolerance is relative to each of its numbers; otherwise to its largest one.
  bool is_of_each = false;
  numbers_source inputs = any_numbers;
  std::uint64_t key = 77;
};

/// The results of a batch's passes on a CUDA device.
struct device_passes {
  std::vector<float> y;
  pass_gradients grad;

  device_passes(kernels::stream& on, const passes& like, const std::vector<float>& grad_y) {
    using numbers = kernels::device_array<float>;
    const auto put = [&](const std::vector<float>& from) {
      numbers there;
      kernels::assign<float>(on, from, there);
      return there;
    };
    const auto buffer = [&](std::size_t count) { return put(std::vector<float>(count, nan_float)); };
    const auto get = [&](const numbers& from) {
      std::vector<float> here(from.size());
      on.download(from.data(), here.data(), here.size() * sizeof(float));
      on.synchronize();
      return here;
    };
    const numbers x = put(like.x), parameters = put(like.parameters), buffers = put(like.buffers.get()),
                  output = buffer(grad_y.size()), saved = buffer(like.what.saved(like.in, on)),
                  grad_there = put(grad_y), grad_x = buffer(like.x.size()), grads = buffer(like.parameters.size());
    pass how = {.stream = on, .training = true, .key = like.how.key};
    const pass_numbers all{.parameters = {parameters.data(), like.parameter_list},
                           .buffers = {buffers.data(), like.buffer_list},
                           .input = {like.in, x.data()},
                           .output = {output.data(), like.out},
                           .saved = {saved.data(), saved.size()}};
    like.what.forward(how, all);
    y = get(output);
    const view<const float> of_output{grad_there.data(), like.out};
    like.what.backward(how, all, {.output = of_output, .input = {grad_x.data(), like.in}});
    how.is_second_backward = true;
    flat_gradient to(grads.data());
    if (!like.parameters.empty()) like.what.backward_parameters(how, all, of_output, to);
    grad = {get(grad_x), get(grads)};
  }
};

inline void expect_gradient(const std::vector<float>& found, const std::vector<double>& expected,
                            const layer_check& check) {
  double largest = 1;
  for (const double one : expected) largest = std::max(largest, std::abs(one));
  model::expect_near(found, expected, check.is_of_each ? check.gradient_tolerance : check.gradient_tolerance * largest);
}

/// Expects that a training pass of `size` samples gives the formula's output and its central differences as gradients;
/// on the processor also that one backward pass gives the same gradients as two. Evaluation must not write buffers.
inline void expect_layer(kernels::stream& on, kernels::test::source_of_numbers& random, const layer_case& one,
                         std::size_t size, const layer_check& check) {
  SCOPED_TRACE(testing::Message() << one.json << ", batch " << size << " of " << to_string(one.in));
  const auto made = layer_of(one.json, one.in);
  EXPECT_EQ(made->type(), kind_of(spec_of(one.json)));
  passes p(*made, batch_of(size, one.in), check.inputs(random, size * one.in.count()), check.key);
  p.parameters = random.numbers(p.parameters.size());
  const auto value_of = [&](const std::vector<double>& x, const std::vector<double>& parameters) {
    const double* at = parameters.data();
    auto y = check.formula({one.in, size, x}, at);
    EXPECT_EQ(at, parameters.data() + parameters.size());
    return y;
  };
  const auto x = model::in_double(p.x);
  const auto parameters = model::in_double(p.parameters);
  const auto expected = value_of(x, parameters);
  ASSERT_EQ(p.out, batch_of(size, expected.shape));
  const auto grad_y = random.numbers(p.y.size());
  const auto compare = [&](const std::vector<float>& y, const pass_gradients& grad) {
    const auto value = [&](const auto& at, const auto& with) { return product(value_of(at, with).numbers, grad_y); };
    model::expect_near(y, expected.numbers, 1e-5);
    expect_gradient(grad.x, central_differences(x, [&](const auto& at) { return value(at, parameters); }), check);
    expect_gradient(grad.parameters, central_differences(parameters, [&](const auto& with) { return value(x, with); }),
                    check);
  };
  if (!on.device().is_host()) {
    const device_passes there(on, p, grad_y);
    return compare(there.y, there.grad);
  }
  const auto y = p.forward();
  const pass_gradients grad = p.backward(grad_y);
  compare(y, grad);
  p.expect_at_once(grad_y, grad);
  const auto buffers = p.buffers.get();
  p.how.training = false;
  for (const float number : p.forward()) EXPECT_TRUE(std::isfinite(number));
  EXPECT_TRUE(kernels::test::same_bits(p.buffers.get(), buffers));
}

}  // namespace troupe::nn
