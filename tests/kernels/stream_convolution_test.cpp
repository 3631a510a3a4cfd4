// A stream's convolutions against loops in double over each window.

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_convolution_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

constexpr conv2d_shape convolution_shapes[] = {
    {1, 7, 5, 1, 1, 1, 0},           // a multiplication
    {1, 28, 28, 12, 3, 1, 1},        // from a network for digits
    {12, 28, 28, 24, 6, 2, 0},       //
    {24, 12, 12, 32, 6, 2, 2},       //
    {3, 5, 7, 4, 5, 3, 4},           // windows of mostly padding
    {2, 4, 6, 3, 4, 1, 0},           // a kernel as high as the image, but narrower
    {3, 6, 6, 5, 6, 1, 0},           // a kernel as large as the image
    {5, 1, 1, 7, 1, 1, 0},           // images of one number
    {2, 9, 8, 2, 3, 4, 1},           // numbers outside all windows
    {17, 6, 5, 33, 2, 1, 1},         // more channels than a vector holds
    {2, 9, 8, 3, 3, 1, 2, 2},        // a dilated kernel
    {3, 11, 7, 2, 2, 3, 4, 5},       // a dilated kernel with a stride
    {6, 5, 7, 4, 3, 1, 1, 1, 2},     // groups
    {5, 6, 6, 10, 3, 2, 1, 1, 5},    // a group per input channel
    {16, 7, 7, 32, 3, 1, 2, 2, 4},   // dilated groups
    {24, 5, 5, 24, 3, 1, 1, 1, 24},  // each channel in its own group
};

std::string text(const conv2d_shape& s, std::size_t batch) {
  std::string all = std::to_string(batch);
  for (const std::size_t size :
       {s.in_channels, s.height, s.width, s.out_channels, s.kernel, s.stride, s.padding, s.dilation, s.groups})
    all += " " + std::to_string(size);
  return all;
}

/// Sums in double, and sums of magnitudes, to which errors are relative.
struct sums {
  explicit sums(std::size_t count) : value(count), magnitude(count) {}

  void add(std::size_t at, double term) {
    value[at] += term;
    magnitude[at] += std::abs(term);
  }

  std::vector<double> value, magnitude;
};

void expect_near(const std::vector<float>& got, const sums& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.value.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected.value[i], 1e-6 * expected.magnitude[i]) << what << " " << i;
}

/// A batch for a convolution, and the expected results.
struct convolution_case {
  convolution_case(const conv2d_shape& its_shape, std::size_t its_batch)
      : shape(its_shape),
        batch(its_batch),
        random(static_cast<std::uint32_t>(shape.weights() + batch)),
        x(random.numbers(batch * shape.inputs())),
        weight(random.numbers(shape.weights())),
        bias(random.numbers(shape.out_channels)),
        grad_y(random.numbers(batch * shape.outputs())) {
    const std::size_t area = shape.out_height() * shape.out_width();
    for (std::size_t at = 0; at < grad_y.size(); ++at) {
      y_without_bias.add(at, 0);
      grad_bias.add(at / area % shape.out_channels, grad_y[at]);
      for_each_tap(at, [&](std::size_t x_at, std::size_t weight_at) {
        y_without_bias.add(at, static_cast<double>(x[x_at]) * static_cast<double>(weight[weight_at]));
        grad_x.add(x_at, static_cast<double>(grad_y[at]) * static_cast<double>(weight[weight_at]));
        grad_weight.add(weight_at, static_cast<double>(grad_y[at]) * static_cast<double>(x[x_at]));
      });
    }
    y = y_without_bias;
    for (std::size_t at = 0; at < grad_y.size(); ++at) y.add(at, bias[at / area % shape.out_channels]);
  }

  /// Calls `tap(index in x, index in weight)` for each product of output number `at`.
  void for_each_tap(std::size_t at, const std::function<void(std::size_t, std::size_t)>& tap) const {
    const std::size_t column = at % shape.out_width();
    const std::size_t row = at / shape.out_width() % shape.out_height();
    const std::size_t out = at / (shape.out_width() * shape.out_height()) % shape.out_channels;
    const std::size_t sample = at / shape.outputs();
    const std::size_t in_of_group = shape.in_channels / shape.groups;
    const std::size_t first = out / (shape.out_channels / shape.groups) * in_of_group;
    for (std::size_t in = 0; in < in_of_group; ++in) {
      for (std::size_t i = 0; i < shape.kernel; ++i) {
        for (std::size_t j = 0; j < shape.kernel; ++j) {
          const std::size_t padded_row = row * shape.stride + i * shape.dilation;
          const std::size_t padded_column = column * shape.stride + j * shape.dilation;
          if (padded_row < shape.padding || padded_row >= shape.height + shape.padding) continue;
          if (padded_column < shape.padding || padded_column >= shape.width + shape.padding) continue;
          tap(((sample * shape.in_channels + first + in) * shape.height + padded_row - shape.padding) * shape.width +
                  padded_column - shape.padding,
              ((out * in_of_group + in) * shape.kernel + i) * shape.kernel + j);
        }
      }
    }
  }

  conv2d_shape shape;
  std::size_t batch;
  source_of_numbers random;
  std::vector<float> x, weight, bias, grad_y;
  sums y_without_bias{grad_y.size()}, y{0}, grad_x{x.size()}, grad_weight{weight.size()}, grad_bias{bias.size()};
};

template <class Body>
void for_each_case(const Body& body) {
  for (const conv2d_shape& shape : convolution_shapes) {
    for (const std::size_t batch : {0, 1, 3}) {
      SCOPED_TRACE(text(shape, batch));
      for (const std::size_t before : {0, 1}) body(convolution_case(shape, batch), before);
    }
  }
}

template <class Place>
class StreamConvolution : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamConvolution, each_device, device_names);

TYPED_TEST(StreamConvolution, ForwardSumsEachWindow) {
  for_each_case([&](const convolution_case& c, std::size_t before) {
    const auto x = this->put(c.x, before);
    const auto weight = this->put(c.weight, before);
    const auto bias = this->put(c.bias, before);
    for (const bool with_bias : {true, false}) {
      const auto y = this->put(std::vector<float>(c.grad_y.size(), nan), before);
      this->on().conv2d_forward(c.shape, c.batch, x.data() + before, weight.data() + before,
                                with_bias ? bias.data() + before : nullptr, y.data() + before);
      expect_near(this->get(y.data() + before, c.grad_y.size()), with_bias ? c.y : c.y_without_bias, "y");
    }
  });
}

TYPED_TEST(StreamConvolution, BackwardOverwritesTheInputsGradient) {
  for_each_case([&](const convolution_case& c, std::size_t before) {
    const auto weight = this->put(c.weight, before);
    const auto grad_y = this->put(c.grad_y, before);
    const auto grad_x = this->put(std::vector<float>(c.x.size(), nan), before);
    this->on().conv2d_backward_input(c.shape, c.batch, weight.data() + before, grad_y.data() + before,
                                     grad_x.data() + before);
    expect_near(this->get(grad_x.data() + before, c.x.size()), c.grad_x, "grad_x");
  });
}

TYPED_TEST(StreamConvolution, BackwardOverwritesTheParametersGradients) {
  for_each_case([&](const convolution_case& c, std::size_t before) {
    const auto x = this->put(c.x, before);
    const auto grad_y = this->put(c.grad_y, before);
    for (const bool with_bias : {true, false}) {
      const auto grad_weight = this->put(std::vector<float>(c.weight.size(), nan), before);
      const auto grad_bias = this->put(std::vector<float>(c.bias.size(), nan), before);
      this->on().conv2d_backward_parameters(c.shape, c.batch, x.data() + before, grad_y.data() + before,
                                            grad_weight.data() + before,
                                            with_bias ? grad_bias.data() + before : nullptr);
      expect_near(this->get(grad_weight.data() + before, c.weight.size()), c.grad_weight, "grad_weight");
      if (with_bias) expect_near(this->get(grad_bias.data() + before, c.bias.size()), c.grad_bias, "grad_bias");
    }
  });
}

TYPED_TEST(StreamConvolution, RepeatsItsBits) {
  const convolution_case c({12, 28, 28, 24, 6, 2, 0}, 16);
  const auto x = this->put(c.x);
  const auto grad_y = this->put(c.grad_y);
  std::vector<std::vector<float>> results;
  for (int round = 0; round < 2; ++round) {
    const auto grads = this->template buffer<float>(c.weight.size() + c.bias.size());
    this->on().conv2d_backward_parameters(c.shape, c.batch, x.data(), grad_y.data(), grads.data(),
                                          grads.data() + c.weight.size());
    results.push_back(this->get(grads));
  }
  EXPECT_TRUE(same_bits(results[0], results[1]));
}

TEST(Convolution, HasTheSameBitsOnEveryThread) {
  const convolution_case c({12, 28, 28, 24, 6, 2, 0}, 8);
  constexpr std::size_t threads = 4;
  std::vector<std::vector<float>> results(threads, std::vector<float>(c.weight.size() + c.bias.size()));
  {
    std::vector<std::jthread> all;
    all.reserve(threads);
    for (std::vector<float>& grads : results)
      all.emplace_back([&] {
        for (int round = 0; round < 3; ++round)
          host_stream().conv2d_backward_parameters(c.shape, c.batch, c.x.data(), c.grad_y.data(), grads.data(),
                                                   grads.data() + c.weight.size());
      });
  }
  for (const std::vector<float>& result : results) EXPECT_TRUE(same_bits(result, results[0]));
  std::vector<float> grad_weight = results[0];
  grad_weight.resize(c.weight.size());
  expect_near(grad_weight, c.grad_weight, "grad_weight");
}

}  // namespace
}  // namespace troupe::kernels::test::stream_convolution_test
