// The fully connected layer against sums in double, for shapes that our loop and BLAS compute.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::linear_test {
namespace {

struct shape {
  std::size_t batch;
  std::size_t in;
  std::size_t out;
};

std::vector<shape> shapes() {
  std::vector<shape> all;
  for (const std::size_t batch : {0, 1, 2, 7, 33}) {
    for (const std::size_t in : odd_sizes) {
      for (const std::size_t out : {1, 2, 5, 8, 17, 33, 64, 100}) all.push_back({batch, in, out});
    }
  }
  all.push_back({6, 16, 8});
  all.push_back({8, 32, 32});  // the largest that our loop computes
  all.push_back({9, 32, 32});
  all.push_back({3, 0, 4});
  all.push_back({129, 13, 512});
  return all;
}

std::string text(const shape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.in) + " x " + std::to_string(s.out);
}

/// Checks result [rows, columns] against the sum over k < depth of left(row, k) * right(k, column), plus start(column).
template <class Left, class Right, class Start>
void check_product(const std::vector<float>& result, std::size_t rows, std::size_t columns, std::size_t depth,
                   const Left& left, const Right& right, const Start& start) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = start(column);
      double magnitude = std::abs(sum);
      for (std::size_t k = 0; k < depth; ++k) {
        const double term = static_cast<double>(left(row, k)) * static_cast<double>(right(k, column));
        sum += term;
        magnitude += std::abs(term);
      }
      const double bound = magnitude * rounding * static_cast<double>(depth + 2);
      ASSERT_NEAR(result[row * columns + column], sum, bound) << "row " << row << " column " << column;
    }
  }
}

const auto from_zero = [](std::size_t) { return 0.0; };

TEST(Linear, ForwardIsTheProductPlusBias) {
  on_every_target([] {
    for (const shape& s : shapes()) {
      SCOPED_TRACE(text(s));
      source_of_numbers random(1);
      const std::vector<float> x = random.numbers(s.batch * s.in);
      const std::vector<float> weight = random.numbers(s.out * s.in);
      const std::vector<float> bias = random.numbers(s.out);
      std::vector<float> y(s.batch * s.out, 77.0F);
      host_stream().linear_forward(s.batch, s.in, s.out, x.data(), weight.data(), bias.data(), activation::none,
                                   y.data());
      check_product(
          y, s.batch, s.out, s.in, [&](std::size_t b, std::size_t k) { return x[b * s.in + k]; },
          [&](std::size_t k, std::size_t o) { return weight[o * s.in + k]; },
          [&](std::size_t o) { return static_cast<double>(bias[o]); });
    }
  });
}

TEST(Linear, BackwardOverwritesTheParametersGradients) {
  on_every_target([] {
    for (const shape& s : shapes()) {
      SCOPED_TRACE(text(s));
      source_of_numbers random(2);
      const std::vector<float> x = random.numbers(s.batch * s.in);
      const std::vector<float> grad_y = random.numbers(s.batch * s.out);
      std::vector<float> grad_weight(s.out * s.in, 77.0F);
      std::vector<float> grad_bias(s.out, 77.0F);
      host_stream().linear_backward_parameters(s.batch, s.in, s.out, x.data(), grad_y.data(), grad_weight.data(),
                                               grad_bias.data());
      const auto grad_of = [&](std::size_t o, std::size_t b) { return grad_y[b * s.out + o]; };
      check_product(
          grad_weight, s.out, s.in, s.batch, grad_of, [&](std::size_t b, std::size_t i) { return x[b * s.in + i]; },
          from_zero);
      for (std::size_t o = 0; o < s.out; ++o) {
        float sum = 0;
        for (std::size_t b = 0; b < s.batch; ++b) sum += grad_of(o, b);
        ASSERT_EQ(grad_bias[o], sum) << "in batch order, output " << o;
      }
    }
  });
}

TEST(Linear, BackwardOverwritesTheInputsGradient) {
  on_every_target([] {
    for (const shape& s : shapes()) {
      SCOPED_TRACE(text(s));
      source_of_numbers random(3);
      const std::vector<float> weight = random.numbers(s.out * s.in);
      const std::vector<float> grad_y = random.numbers(s.batch * s.out);
      std::vector<float> grad_x(s.batch * s.in, 77.0F);
      host_stream().linear_backward_input(s.batch, s.in, s.out, weight.data(), grad_y.data(), grad_x.data());
      check_product(
          grad_x, s.batch, s.in, s.out, [&](std::size_t b, std::size_t o) { return grad_y[b * s.out + o]; },
          [&](std::size_t o, std::size_t i) { return weight[o * s.in + i]; }, from_zero);
    }
  });
}

TEST(Linear, GivesZeroGradientsForAnEmptyBatch) {
  for (const std::size_t in : {16, 200}) {
    std::vector<float> grad_weight(in * 8, 77.0F);
    std::vector<float> grad_bias(8, 77.0F);
    host_stream().linear_backward_parameters(0, in, 8, nullptr, nullptr, grad_weight.data(), grad_bias.data());
    EXPECT_EQ(grad_weight, std::vector<float>(in * 8, 0.0F));
    EXPECT_EQ(grad_bias, std::vector<float>(8, 0.0F));
  }
}

TEST(Linear, RepeatsBitForBit) {
  for (const shape s : {shape{6, 16, 8}, shape{129, 100, 64}}) {
    source_of_numbers random(4);
    const std::vector<float> x = random.numbers(s.batch * s.in);
    const std::vector<float> weight = random.numbers(s.out * s.in);
    const std::vector<float> bias = random.numbers(s.out);
    std::vector<float> once(s.batch * s.out);
    std::vector<float> again(s.batch * s.out);
    host_stream().linear_forward(s.batch, s.in, s.out, x.data(), weight.data(), bias.data(), activation::none,
                                 once.data());
    host_stream().linear_forward(s.batch, s.in, s.out, x.data(), weight.data(), bias.data(), activation::none,
                                 again.data());
    EXPECT_TRUE(same_bits(once, again)) << text(s);
  }
}

}  // namespace
}  // namespace troupe::kernels::test::linear_test
