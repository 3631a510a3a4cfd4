// A module's passes on the processor for tests: numbers that no pass has written are NaN, and no pass may write outside
// of its numbers.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "nn/module.hpp"
#include "nn/samples.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::nn {

inline constexpr float nan_float = std::numeric_limits<float>::quiet_NaN();

/// Numbers with guards before and after them, which must not change.
class guarded_numbers {
 public:
  explicit guarded_numbers(std::vector<float> numbers) : all_(std::move(numbers)) {
    all_.insert(all_.begin(), width, guard);
    all_.insert(all_.end(), width, guard);
  }
  explicit guarded_numbers(std::size_t count) : guarded_numbers(std::vector<float>(count, nan_float)) {}

  float* data() { return all_.data() + width; }
  std::size_t size() const { return all_.size() - 2 * width; }
  /// Returns a copy after checking the guards.
  std::vector<float> get() const {
    for (std::size_t i = 0; i < width; ++i) {
      EXPECT_EQ(all_[i], guard) << "written before the numbers";
      EXPECT_EQ(all_[all_.size() - 1 - i], guard) << "written behind the numbers";
    }
    return {all_.begin() + width, all_.end() - width};
  }

 private:
  static constexpr std::ptrdiff_t width = 16;
  static constexpr float guard = 12345.0F;

  std::vector<float> all_;
};

/// A flat gradient that records which ranges were requested and finished.
class noted_places final : public gradient_places {
 public:
  using pairs = std::vector<std::pair<std::size_t, std::size_t>>;  // ranges: first and count

  explicit noted_places(std::size_t count) : numbers(count) {}

  float* at(const parameter_range& which) override {
    asked.emplace_back(which.first, which.count);
    return numbers.data() + which.first;
  }
  void finished(const parameter_range& which) override {
    done.emplace_back(which.first, which.count);
    if (when_finished) when_finished(which);
  }

  /// Returns the same ranges in reverse order.
  static pairs from_the_last(const std::vector<parameter_range>& ranges) {
    pairs all;
    for (const parameter_range& one : ranges) all.emplace(all.begin(), one.first, one.count);
    return all;
  }

  guarded_numbers numbers;
  pairs asked;
  pairs done;
  std::function<void(const parameter_range&)> when_finished = {};
};

/// The gradients of a pass.
struct pass_gradients {
  std::vector<float> x;
  std::vector<float> parameters;
};

/// The passes of one batch, starting from the initial parameters and buffers of `key`.
struct passes {
  const module& what;
  troupe::shape in;
  pass how;
  std::vector<parameter> parameter_list = placed(what.parameters());
  std::vector<parameter> buffer_list = placed(what.buffers());
  std::vector<float> parameters;
  guarded_numbers buffers{std::size_t{0}};
  std::vector<float> x;
  troupe::shape out = what.output(in);
  guarded_numbers y{out.count()};
  guarded_numbers saved{what.saved(in, how.stream)};
  /// For modules that carry a state; if empty, none is passed in or requested.
  std::vector<float> state = {};
  std::vector<float> next_state = {};

  passes(const module& of, const troupe::shape& shape, std::vector<float> input, std::uint64_t key = 77)
      : what(of), in(shape), how{.stream = kernels::host_stream(), .training = true, .key = key}, x(std::move(input)) {
    EXPECT_EQ(x.size(), in.count());
    flat_numbers initial = initial_numbers(what, key);
    parameters = std::move(initial.parameters);
    buffers = guarded_numbers(std::move(initial.buffers));
  }

  pass_numbers numbers() {
    pass_numbers all{.parameters = {parameters.data(), parameter_list},
                     .buffers = {buffers.data(), buffer_list},
                     .input = {in, x.data()},
                     .output = {y.data(), out},
                     .saved = {saved.data(), saved.size()}};
    if (!state.empty()) all.state = {state.data(), what.state(in)};
    if (!next_state.empty()) all.next_state = {next_state.data(), what.state(in)};
    return all;
  }

  std::vector<float> forward() {
    y = guarded_numbers(y.size());
    saved = guarded_numbers(saved.size());
    what.forward(how, numbers());
    return y.get();
  }

  /// Runs the two backward passes. Computes the gradient of the input first, as trainers do; like a loss, destroys the
  /// output.
  pass_gradients backward(const std::vector<float>& grad_y) {
    guarded_numbers grad_x(x.size());
    backward({.output = {grad_y.data(), out}, .input = {grad_x.data(), in}});
    return {grad_x.get(), backward_parameters(grad_y)};
  }

  /// Runs the second backward pass.
  std::vector<float> backward_parameters(const std::vector<float>& grad_y) {
    noted_places to(parameters.size());
    backward_parameters(grad_y, to);
    EXPECT_EQ(to.asked, to.done);
    return to.numbers.get();
  }
  void backward_parameters(const std::vector<float>& grad_y, gradient_places& to) {
    pass second = how;
    second.is_second_backward = true;
    if (!parameters.empty()) what.backward_parameters(second, numbers(), {grad_y.data(), out}, to);
  }

  void backward(const gradients& of) {
    y = guarded_numbers(y.size());
    what.backward(how, numbers(), of);
    saved.get();
  }

  /// Expects the same bits from one backward pass as from two, also without the gradient of the input, if allowed.
  void expect_at_once(const std::vector<float>& grad_y, const pass_gradients& expected, bool may_leave_x_out = true) {
    using kernels::test::same_bits;
    for (const bool wants_x : {true, false}) {
      if (!wants_x && !may_leave_x_out) return;
      guarded_numbers grad_x(x.size());
      guarded_numbers grad(parameters.size());
      gradients of{.output = {grad_y.data(), out}, .parameters = {grad.data(), parameter_list}};
      if (wants_x) of.input = {grad_x.data(), in};
      forward();
      backward(of);
      EXPECT_TRUE(same_bits(grad.get(), expected.parameters)) << wants_x;
      EXPECT_TRUE(!wants_x || same_bits(grad_x.get(), expected.x));
    }
    forward();
    backward({.output = {grad_y.data(), out}});
    EXPECT_TRUE(same_bits(backward_parameters(grad_y), expected.parameters));
  }
};

}  // namespace troupe::nn
