// The linear layer: against plain double arithmetic and central differences.

#include "model/linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"

namespace troupe::model::linear_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

kernels::stream& on = kernels::host_stream();

struct shape {
  std::size_t batch;
  std::size_t in;
  std::size_t out;
};

// On both sides of vector widths, and of the size from which BLAS multiplies.
constexpr shape shapes[] = {{1, 1, 1}, {2, 3, 5}, {7, 17, 9}, {33, 31, 65}, {65, 129, 33}, {3, 257, 100}};

TEST(Linear, MultipliesByTheWeightAndAddsTheBias) {
  source_of_numbers random(1);
  for (const auto& [batch, in, out] : shapes) {
    SCOPED_TRACE(testing::Message() << batch << ", " << in << ", " << out);
    const linear layer{in, out};
    ASSERT_EQ(layer.parameter_count(), out * in + out);
    const auto parameters = random.numbers(layer.parameter_count());
    const auto x = random.numbers(batch * in);
    std::vector<float> y(batch * out);
    layer.forward(on, batch, parameters.data(), x.data(), y.data());
    expect_near(y, reference_network{{in, out}}.forward(batch, in_double(parameters), in_double(x)), 1e-5);
  }
}

TEST(Linear, GradientsAreCentralDifferences) {
  source_of_numbers random(2);
  for (const auto& [batch, in, out] : shapes) {
    SCOPED_TRACE(testing::Message() << batch << ", " << in << ", " << out);
    const linear layer{in, out};
    const auto parameters = random.numbers(layer.parameter_count());
    const auto x = random.numbers(batch * in);
    const auto grad_y = random.numbers(batch * out);
    std::vector<float> y(batch * out);
    layer.forward(on, batch, parameters.data(), x.data(), y.data());
    // What was there before must not matter.
    std::vector<float> grad_parameters(parameters.size(), std::numeric_limits<float>::quiet_NaN());
    std::vector<float> grad_x(x.size(), std::numeric_limits<float>::quiet_NaN());
    layer.backward_input(on, batch, parameters.data(), grad_y.data(), grad_x.data());
    layer.backward_parameters(on, batch, x.data(), grad_y.data(), grad_parameters.data());
    expect_gradients({{in, out}}, batch, parameters, x, grad_y, grad_parameters, grad_x, 1e-5);
  }
}

TEST(Linear, InitialWeightsAndBiasesFillTheirBounds) {
  for (const std::size_t in : {1, 3, 64, 1000}) {
    const linear layer{in, 2000};
    std::vector<float> parameters(layer.parameter_count());
    layer.initialize(11, parameters.data());
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    const auto begin_of_bias = parameters.begin() + static_cast<std::ptrdiff_t>(in * 2000);
    for (const auto& [begin, end] : {std::pair(parameters.begin(), begin_of_bias), {begin_of_bias, parameters.end()}}) {
      const auto [low, high] = std::minmax_element(begin, end);
      EXPECT_LE(*high, static_cast<float>(bound)) << in;
      EXPECT_GE(*low, static_cast<float>(-bound)) << in;
      EXPECT_GT(*high, 0.99 * bound) << in;
      EXPECT_LT(*low, -0.99 * bound) << in;
      double square = 0;
      for (auto value = begin; value != end; ++value)
        square += static_cast<double>(*value) * static_cast<double>(*value);
      // The variance of a uniform distribution; 2000 values or more know it to within 2 %.
      EXPECT_NEAR(square / static_cast<double>(end - begin), bound * bound / 3, bound * bound / 30) << in;
    }
  }
}

TEST(Linear, InitialWeightsAreAFunctionOfTheKey) {
  const linear layer{17, 9};
  std::vector<float> one(layer.parameter_count());
  std::vector<float> again(layer.parameter_count(), 5.0F);
  std::vector<float> other(layer.parameter_count());
  layer.initialize(1, one.data());
  layer.initialize(1, again.data());
  layer.initialize(2, other.data());
  EXPECT_TRUE(kernels::test::same_bits(one, again));
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NE(one[i], other[i]) << i;
}

TEST(Linear, ReluPassesWhatIsPositive) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  // Multiplied by 1, with nothing added.
  const std::vector<float> x = {-1, 0, 2, inf, -inf, 1e-30F, -1e-30F, 3, nan};
  const std::vector<float> expected = {0, 0, 2, inf, 0, 1e-30F, 0, 3, nan};
  const std::vector<float> grad_y = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<float> expected_grad = {0, 0, 3, 4, 0, 6, 0, 8, 0};
  const linear layer{1, 1, kernels::activation::relu};
  const std::vector<float> parameters = {1, 0};
  std::vector<float> y(x.size());
  std::vector<float> grad(x.size(), nan);
  layer.forward(on, x.size(), parameters.data(), x.data(), y.data());
  layer.backward_activation(on, x.size(), y.data(), grad_y.data(), grad.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i]))) << i << ": " << y[i];
    EXPECT_EQ(grad[i], expected_grad[i]) << i;
  }
}

}  // namespace
}  // namespace troupe::model::linear_test
