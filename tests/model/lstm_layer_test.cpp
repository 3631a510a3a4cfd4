// An LSTM that goes on from a state: parts of a sequence against the whole, and its ways back, cut at the state.

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "model/layers.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_layers.hpp"
#include "tests/model/reference_network.hpp"

namespace troupe::model::lstm_layer_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr std::size_t size = 3;
constexpr std::size_t in = 4;
constexpr std::size_t hidden = 5;

layer_ptr lstm_of(std::size_t steps) {
  auto made = make_layer({.kind = layer_kind::lstm, .hidden = hidden}, 0, {steps, in});
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

struct passes {
  layer_ptr what;
  const std::vector<float>& parameters;
  std::vector<float> x;
  std::vector<float> y;
  std::vector<float> saved;
  std::vector<float> next_state;

  passes(std::size_t steps, const std::vector<float>& with, std::vector<float> input)
      : what(lstm_of(steps)),
        parameters(with),
        x(std::move(input)),
        y(size * steps * hidden),
        saved(what->saved(size), std::numeric_limits<float>::quiet_NaN()),
        next_state(2 * size * hidden) {}

  layer::pass how() const { return {.on = kernels::host_stream(), .size = size, .training = true}; }
  layer::numbers numbers(const float* state) {
    return {parameters.data(), nullptr, x.data(), y.data(), saved.data(), state, next_state.data()};
  }
};

/// Steps [first, end) of each sample.
std::vector<float> cut(const std::vector<float>& x, std::size_t width, std::size_t first, std::size_t end) {
  const std::size_t of_sample = x.size() / size;
  std::vector<float> part;
  for (std::size_t b = 0; b < size; ++b)
    for (std::size_t i = first * width; i < end * width; ++i) part.push_back(x[b * of_sample + i]);
  return part;
}

TEST(LstmLayer, PartsThatPassTheStateOnAreTheWhole) {
  constexpr std::size_t steps = 7;
  source_of_numbers random(1);
  const auto parameters = random.numbers(count_of(lstm_of(steps)->parameters()));
  passes whole(steps, parameters, random.numbers(size * steps * in));
  whole.what->forward(whole.how(), whole.numbers(nullptr));

  std::vector<float> state(2 * size * hidden);
  std::size_t first = 0;
  for (const std::size_t length : {1, 4, 2}) {
    passes part(length, parameters, cut(whole.x, in, first, first + length));
    part.what->forward(part.how(), part.numbers(state.data()));
    expect_near(part.y, in_double(cut(whole.y, hidden, first, first + length)), 1e-6);
    state = part.next_state;
    first += length;
  }
  expect_near(state, in_double(whole.next_state), 1e-6);
  EXPECT_TRUE(same_bits(cut(whole.y, hidden, steps - 1, steps), {whole.next_state.data(), size * hidden}));

  // A state of zeros is none.
  const std::vector<float> zeros(2 * size * hidden);
  passes again(steps, parameters, whole.x);
  again.what->forward(again.how(), again.numbers(zeros.data()));
  EXPECT_TRUE(same_bits(again.y, whole.y));
}

TEST(LstmLayer, GradientsAreThoseOfThePartFromItsState) {
  constexpr std::size_t steps = 3;
  const layer_spec spec{.kind = layer_kind::lstm, .hidden = hidden};
  source_of_numbers random(2);
  const auto parameters = random.numbers(count_of(lstm_of(steps)->parameters()));
  const auto state = random.numbers(2 * size * hidden);
  passes part(steps, parameters, random.numbers(size * steps * in));
  const auto grad_y = random.numbers(part.y.size());
  const auto value = [&](const std::vector<double>& x, const std::vector<double>& with) {
    const double* at = with.data();
    auto from = in_double(state);
    const auto y = reference_lstm(spec, {{steps, in}, size, x}, at, from);
    double sum = 0;
    for (std::size_t i = 0; i < grad_y.size(); ++i) sum += y.numbers[i] * static_cast<double>(grad_y[i]);
    return sum;
  };
  const auto x = in_double(part.x);
  const auto with = in_double(parameters);
  part.what->forward(part.how(), part.numbers(state.data()));
  std::vector<float> grad_x(part.x.size());
  std::vector<float> grad(parameters.size());
  part.what->backward_input(part.how(), part.numbers(state.data()), grad_y.data(), grad_x.data());
  part.what->backward_parameters(part.how(), part.numbers(state.data()), grad_y.data(), grad.data());
  expect_near(grad_x, central_differences(x, [&](const auto& at) { return value(at, with); }), 1e-5);
  expect_near(grad, central_differences(with, [&](const auto& at) { return value(x, at); }), 1e-5);
}

TEST(LstmLayer, RepeatsItsBits) {
  source_of_numbers random(3);
  const auto parameters = random.numbers(count_of(lstm_of(4)->parameters()));
  passes first(4, parameters, random.numbers(size * 4 * in));
  passes second(4, parameters, first.x);
  const auto grad_y = random.numbers(first.y.size());
  std::vector<std::vector<float>> grads;
  for (passes* one : {&first, &second}) {
    one->what->forward(one->how(), one->numbers(nullptr));
    std::vector<float> grad_x(one->x.size());
    grads.emplace_back(parameters.size());
    one->what->backward_input(one->how(), one->numbers(nullptr), grad_y.data(), grad_x.data());
    one->what->backward_parameters(one->how(), one->numbers(nullptr), grad_y.data(), grads.back().data());
    grads.push_back(grad_x);
  }
  EXPECT_TRUE(same_bits(first.y, second.y));
  EXPECT_TRUE(same_bits(grads[0], grads[2]));
  EXPECT_TRUE(same_bits(grads[1], grads[3]));
}

}  // namespace
}  // namespace troupe::model::lstm_layer_test
