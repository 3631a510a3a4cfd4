// A stream's fully connected layers against sums in double, in each precision, also without cuBLASLt epilogues.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_linear_test {
namespace {

struct layer_shape {
  std::size_t batch;
  std::size_t in;
  std::size_t out;
};

constexpr layer_shape layer_shapes[] = {{1, 1, 1},     {2, 3, 1},     {7, 5, 9},   {16, 16, 16},
                                        {33, 13, 64},  {64, 100, 33}, {129, 8, 1}, {300, 4, 2},
                                        {513, 17, 12}, {9000, 1, 33}, {0, 5, 3},   {3, 0, 4}};

/// Relative error of a factor.
double factor_error(matmul_precision precision) {
  if (precision == matmul_precision::bf16) return 1.0 / (1 << 8);
  return precision == matmul_precision::tf32 ? 1.0 / (1 << 10) : rounding;
}

/// Compares [rows, cols] with the sum over k < depth of term(row, col, k), plus start(col).
void expect_sums(const std::vector<float>& got, std::size_t rows, std::size_t cols, std::size_t depth, double error,
                 const std::function<double(std::size_t, std::size_t, std::size_t)>& term,
                 const std::function<double(std::size_t)>& start = {}, bool relu = false) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      double sum = start ? start(col) : 0;
      double magnitude = std::abs(sum);
      for (std::size_t k = 0; k < depth; ++k) {
        sum += term(row, col, k);
        magnitude += std::abs(term(row, col, k));
      }
      const double bound = magnitude * (2 * error + rounding * static_cast<double>(depth + 2));
      ASSERT_NEAR(got[row * cols + col], relu ? std::max(sum, 0.0) : sum, bound) << "row " << row << " col " << col;
    }
  }
}

/// A layer's numbers on host and device, `before` numbers after the start of their memory.
template <class Test>
struct layer {
  layer(Test& test, const layer_shape& shape, std::size_t before)
      : random(static_cast<std::uint32_t>(shape.batch * 10000 + shape.in * 100 + shape.out)),
        x(random.numbers(shape.batch * shape.in)),
        weight(random.numbers(shape.out * shape.in)),
        bias(random.numbers(shape.out)),
        grad_y(random.numbers(shape.batch * shape.out)),
        device_x(test.put(x, before)),
        device_weight(test.put(weight, before)),
        device_bias(test.put(bias, before)),
        device_grad_y(test.put(grad_y, before)) {}

  source_of_numbers random;
  std::vector<float> x, weight, bias, grad_y;
  device_array<float> device_x, device_weight, device_bias, device_grad_y;
};

template <class Place>
class StreamLinear : public stream_test<Place> {
 public:
  using stream_test<Place>::put;

 protected:
  /// Calls `body` with a stream of each precision that the device supports.
  template <class Body>
  void on_each_precision(const Body& body) {
    for (const auto precision : {matmul_precision::f32, matmul_precision::tf32, matmul_precision::bf16}) {
      if (this->device().is_host() && precision != matmul_precision::f32) {
        EXPECT_THROW(this->device().make_stream(precision), device_error);
        continue;
      }
      const auto on = this->device().make_stream(precision);
      for (const layer_shape& shape : layer_shapes) {
        SCOPED_TRACE("precision " + std::to_string(static_cast<int>(precision)) + ", " + std::to_string(shape.batch) +
                     " x " + std::to_string(shape.in) + " x " + std::to_string(shape.out));
        for (const std::size_t before : {0, 1}) body(*on, factor_error(precision), shape, before);
      }
    }
  }

  std::vector<float> got(stream& on, const device_array<float>& array, std::size_t before, std::size_t count) {
    on.synchronize();
    return this->get(array.data() + before, count);
  }
};
TYPED_TEST_SUITE(StreamLinear, each_device, device_names);

TYPED_TEST(StreamLinear, ForwardIsTheProductPlusBias) {
  this->on_each_precision([&](stream& on, double error, const layer_shape& s, std::size_t before) {
    const layer l(*this, s, before);
    const auto y = this->template buffer<float>(s.batch * s.out + before);
    for (const activation then : {activation::none, activation::relu, activation::relu}) {
      on.linear_forward(s.batch, s.in, s.out, l.device_x.data() + before, l.device_weight.data() + before,
                        l.device_bias.data() + before, then, y.data() + before);
      expect_sums(
          this->got(on, y, before, s.batch * s.out), s.batch, s.out, s.in, error,
          [&](std::size_t b, std::size_t o, std::size_t k) {
            return static_cast<double>(l.x[b * s.in + k]) * static_cast<double>(l.weight[o * s.in + k]);
          },
          [&](std::size_t o) { return static_cast<double>(l.bias[o]); }, then == activation::relu);
    }
  });
}

TYPED_TEST(StreamLinear, BackwardOverwritesTheParametersGradients) {
  this->on_each_precision([&](stream& on, double error, const layer_shape& s, std::size_t before) {
    const layer l(*this, s, before);
    const auto grad_weight = this->template buffer<float>(s.out * s.in + before);
    const auto grad_bias = this->template buffer<float>(s.out + before);
    on.linear_backward_parameters(s.batch, s.in, s.out, l.device_x.data() + before, l.device_grad_y.data() + before,
                                  grad_weight.data() + before, grad_bias.data() + before);
    expect_sums(this->got(on, grad_weight, before, s.out * s.in), s.out, s.in, s.batch, error,
                [&](std::size_t o, std::size_t i, std::size_t b) {
                  return static_cast<double>(l.grad_y[b * s.out + o]) * static_cast<double>(l.x[b * s.in + i]);
                });
    expect_sums(
        this->got(on, grad_bias, before, s.out), 1, s.out, s.batch, error,
        [&](std::size_t, std::size_t o, std::size_t b) { return static_cast<double>(l.grad_y[b * s.out + o]); });
  });
}

TYPED_TEST(StreamLinear, BackwardOverwritesTheInputsGradient) {
  this->on_each_precision([&](stream& on, double error, const layer_shape& s, std::size_t before) {
    const layer l(*this, s, before);
    const auto grad_x = this->template buffer<float>(s.batch * s.in + before);
    on.linear_backward_input(s.batch, s.in, s.out, l.device_weight.data() + before, l.device_grad_y.data() + before,
                             grad_x.data() + before);
    expect_sums(this->got(on, grad_x, before, s.batch * s.in), s.batch, s.in, s.out, error,
                [&](std::size_t b, std::size_t i, std::size_t o) {
                  return static_cast<double>(l.grad_y[b * s.out + o]) * static_cast<double>(l.weight[o * s.in + i]);
                });
  });
}

TYPED_TEST(StreamLinear, GoesWithoutABias) {
  this->on_each_precision([&](stream& on, double error, const layer_shape& s, std::size_t before) {
    const layer l(*this, s, before);
    const auto y = this->put(std::vector<float>(s.batch * s.out, std::numeric_limits<float>::quiet_NaN()), before);
    for (const activation then : {activation::none, activation::relu}) {
      on.linear_forward(s.batch, s.in, s.out, l.device_x.data() + before, l.device_weight.data() + before, nullptr,
                        then, y.data() + before);
      expect_sums(
          this->got(on, y, before, s.batch * s.out), s.batch, s.out, s.in, error,
          [&](std::size_t b, std::size_t o, std::size_t k) {
            return static_cast<double>(l.x[b * s.in + k]) * static_cast<double>(l.weight[o * s.in + k]);
          },
          {}, then == activation::relu);
    }
    const auto grad_weight = this->template buffer<float>(s.out * s.in + before);
    on.linear_backward_parameters(s.batch, s.in, s.out, l.device_x.data() + before, l.device_grad_y.data() + before,
                                  grad_weight.data() + before, nullptr);
    expect_sums(this->got(on, grad_weight, before, s.out * s.in), s.out, s.in, s.batch, error,
                [&](std::size_t o, std::size_t i, std::size_t b) {
                  return static_cast<double>(l.grad_y[b * s.out + o]) * static_cast<double>(l.x[b * s.in + i]);
                });
  });
}

TYPED_TEST(StreamLinear, RepeatsItsBits) {
  this->on_each_precision([&](stream& on, double, const layer_shape& s, std::size_t before) {
    const layer l(*this, s, before);
    std::vector<std::vector<float>> results;
    for (int round = 0; round < 2; ++round) {
      const auto grads = this->template buffer<float>(s.out * s.in + s.out);
      on.linear_backward_parameters(s.batch, s.in, s.out, l.device_x.data() + before, l.device_grad_y.data() + before,
                                    grads.data(), grads.data() + s.out * s.in);
      results.push_back(this->got(on, grads, 0, grads.size()));
    }
    ASSERT_TRUE(same_bits(results[0], results[1]));
  });
}

TYPED_TEST(StreamLinear, ShowsANan) {
  std::vector<float> x(6, 1.0F);
  x[4] = std::numeric_limits<float>::quiet_NaN();
  const auto device_x = this->put(x);
  const auto ones = this->put(std::vector<float>(9, 1.0F));
  const auto y = this->template buffer<float>(6);
  for (const activation then : {activation::none, activation::relu}) {
    this->on().linear_forward(2, 3, 3, device_x.data(), ones.data(), ones.data(), then, y.data());
    const std::vector<float> got = this->get(y);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(got[i]), i >= 3);
  }
}

class StreamWithoutEpiloguesGpu : public stream_test<on_cuda> {};

TEST_F(StreamWithoutEpiloguesGpu, BiasAndItsGradientAreKernelsOfOurOwn) {
  const std::string output = child_process("StreamLinear/Gpu.*", "TROUPE_EMULATED_CUDA=epilogues=none").output();
  EXPECT_NE(output.find("[  PASSED  ] 6 tests"), std::string::npos) << output;
}

}  // namespace
}  // namespace troupe::kernels::test::stream_linear_test
