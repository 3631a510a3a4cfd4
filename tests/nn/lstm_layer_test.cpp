// An LSTM that continues from a state: parts of a sequence compared with the whole, and its backward passes, which end
// at the state.

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"
#include "tests/nn/passes.hpp"
#include "tests/nn/reference_layers.hpp"

namespace troupe::nn::lstm_layer_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;
using model::expect_near;
using model::in_double;

constexpr std::size_t size = 3;
constexpr std::size_t in = 4;
constexpr std::size_t hidden = 5;

const lstm what({.features = in, .hidden = hidden});

/// Random parameters.
std::vector<float> some_parameters(source_of_numbers& random) { return random.numbers(count_of(what.parameters())); }

passes of_steps(std::size_t steps, const std::vector<float>& parameters, std::vector<float> x) {
  passes made(what, {size, steps, in}, std::move(x));
  made.parameters = parameters;
  made.next_state.assign(2 * size * hidden, nan_float);
  return made;
}

/// Returns steps [first, end) of each sample.
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
  const auto parameters = some_parameters(random);
  passes whole = of_steps(steps, parameters, random.numbers(size * steps * in));
  ASSERT_EQ(what.state(whole.in), troupe::shape(2, size, hidden));
  const auto y = whole.forward();

  std::vector<float> state(2 * size * hidden);
  std::size_t first = 0;
  for (const std::size_t length : {1, 4, 2}) {
    passes part = of_steps(length, parameters, cut(whole.x, in, first, first + length));
    part.state = state;
    expect_near(part.forward(), in_double(cut(y, hidden, first, first + length)), 1e-6);
    state = part.next_state;
    first += length;
  }
  expect_near(state, in_double(whole.next_state), 1e-6);
  EXPECT_TRUE(same_bits(cut(y, hidden, steps - 1, steps), {whole.next_state.data(), size * hidden}));

  // A state of zeros gives the same as no state.
  passes again = of_steps(steps, parameters, whole.x);
  again.state.assign(2 * size * hidden, 0.0F);
  EXPECT_TRUE(same_bits(again.forward(), y));
}

TEST(LstmLayer, GradientsAreThoseOfThePartFromItsState) {
  constexpr std::size_t steps = 3;
  source_of_numbers random(2);
  const auto parameters = some_parameters(random);
  passes part = of_steps(steps, parameters, random.numbers(size * steps * in));
  part.state = random.numbers(2 * size * hidden);
  const auto grad_y = random.numbers(part.y.size());
  const auto value = [&](const std::vector<double>& x, const std::vector<double>& with) {
    const double* at = with.data();
    auto from = in_double(part.state);
    return product(reference_lstm({.hidden = hidden}, {{steps, in}, size, x}, at, from).numbers, grad_y);
  };
  const auto x = in_double(part.x);
  const auto with = in_double(parameters);
  part.forward();
  const pass_gradients grad = part.backward(grad_y);
  expect_near(grad.x, central_differences(x, [&](const auto& at) { return value(at, with); }), 1e-5);
  expect_near(grad.parameters, central_differences(with, [&](const auto& at) { return value(x, at); }), 1e-5);
  part.expect_at_once(grad_y, grad);
}

TEST(LstmLayer, RepeatsItsBits) {
  source_of_numbers random(3);
  const auto parameters = some_parameters(random);
  passes first = of_steps(4, parameters, random.numbers(size * 4 * in));
  passes second = of_steps(4, parameters, first.x);
  const auto grad_y = random.numbers(first.y.size());
  EXPECT_TRUE(same_bits(first.forward(), second.forward()));
  const pass_gradients one = first.backward(grad_y);
  const pass_gradients other = second.backward(grad_y);
  EXPECT_TRUE(same_bits(one.x, other.x));
  EXPECT_TRUE(same_bits(one.parameters, other.parameters));
}

}  // namespace
}  // namespace troupe::nn::lstm_layer_test
