// A stream's pooling of images against loops over each window.

#include <cmath>
#include <functional>
#include <limits>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_pooling_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

constexpr pool2d_shape pool_shapes[] = {
    {1, 1, 1, 1, 1, 1},   {3, 7, 5, 2, 2, 2},   {2, 9, 8, 3, 2, 1}, {2, 9, 9, 3, 3, 2},
    {1, 8, 6, 2, 1, 3},   {4, 28, 28, 2, 2, 2}, {2, 6, 6, 6, 6, 1}, {3, 28, 27, 28, 27, 1},  // one window: the image
    {2, 5, 150, 2, 2, 2}, {1, 5, 4, 5, 2, 1},
};

/// A batch for pooling. It has few different numbers, so that windows have several maxima.
struct pooling_case {
  pooling_case(const pool2d_shape& its_shape, std::size_t its_batch, bool with_nan)
      : shape(its_shape),
        batch(its_batch),
        random(static_cast<std::uint32_t>(shape.inputs() * 10 + batch)),
        x(batch * shape.inputs()),
        grad_y(random.numbers(batch * shape.outputs())) {
    for (float& number : x) number = static_cast<float>(random.below(5)) - 3.0F;
    for (std::size_t i = 0; with_nan && i < x.size(); ++i)
      if (random.below(6) == 0) x[i] = nan;
  }

  /// Calls `body(output number, indices in x)` for each window, its indices in row-major order.
  void for_each_window(const std::function<void(std::size_t, const std::vector<std::size_t>&)>& body) const {
    const std::size_t out_width = shape.out_width();
    const std::size_t out_area = shape.out_height() * out_width;
    for (std::size_t at = 0; at < grad_y.size(); ++at) {
      const std::size_t plane = at / out_area * shape.height * shape.width;
      const std::size_t row = at % out_area / out_width * shape.stride;
      const std::size_t column = at % out_width * shape.stride;
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < shape.kernel_height; ++i)
        for (std::size_t j = 0; j < shape.kernel_width; ++j)
          places.push_back(plane + (row + i) * shape.width + column + j);
      body(at, places);
    }
  }

  std::size_t first_largest(const std::vector<std::size_t>& places) const {
    std::size_t largest = places[0];
    for (const std::size_t place : places) {
      if (std::isnan(x[largest])) break;
      if (std::isnan(x[place]) || x[place] > x[largest]) largest = place;
    }
    return largest;
  }

  pool2d_shape shape;
  std::size_t batch;
  source_of_numbers random;
  std::vector<float> x, grad_y;
};

template <class Body>
void for_each_case(bool with_nan, const Body& body) {
  for (const pool2d_shape& s : pool_shapes) {
    for (const std::size_t batch : {0, 1, 3}) {
      SCOPED_TRACE(std::to_string(batch) + " x " + std::to_string(s.channels) + " x " + std::to_string(s.height) +
                   " x " + std::to_string(s.width) + ", window " + std::to_string(s.kernel_height) + " x " +
                   std::to_string(s.kernel_width) + ", stride " + std::to_string(s.stride));
      for (const std::size_t before : {0, 1}) body(pooling_case(s, batch, with_nan), before);
    }
  }
}

template <class Place>
class StreamPooling : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamPooling, each_device, device_names);

TYPED_TEST(StreamPooling, TakesTheLargestNumber) {
  for (const bool with_nan : {false, true}) {
    for_each_case(with_nan, [&](const pooling_case& c, std::size_t before) {
      const auto x = this->put(c.x, before);
      const auto y = this->put(std::vector<float>(c.grad_y.size(), -9.0F), before);
      this->on().max_pool2d_forward(c.shape, c.batch, x.data() + before, y.data() + before);
      const std::vector<float> got = this->get(y.data() + before, c.grad_y.size());
      c.for_each_window([&](std::size_t at, const std::vector<std::size_t>& places) {
        const float expected = c.x[c.first_largest(places)];
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(got[at])) << at;
        else
          EXPECT_EQ(got[at], expected) << at;
      });
    });
  }
}

TYPED_TEST(StreamPooling, GivesTheGradientToTheFirstLargestNumber) {
  for (const bool with_nan : {false, true}) {
    for_each_case(with_nan, [&](const pooling_case& c, std::size_t before) {
      const auto x = this->put(c.x, before);
      const auto grad_y = this->put(c.grad_y, before);
      const auto grad_x = this->put(std::vector<float>(c.x.size(), nan), before);
      this->on().max_pool2d_backward(c.shape, c.batch, x.data() + before, grad_y.data() + before,
                                     grad_x.data() + before);
      std::vector<double> expected(c.x.size());
      c.for_each_window([&](std::size_t at, const std::vector<std::size_t>& places) {
        expected[c.first_largest(places)] += static_cast<double>(c.grad_y[at]);
      });
      const std::vector<float> got = this->get(grad_x.data() + before, c.x.size());
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-6) << i;
    });
  }
}

TYPED_TEST(StreamPooling, TakesTheMean) {
  for_each_case(false, [&](const pooling_case& c, std::size_t before) {
    const auto x = this->put(c.x, before);
    const auto y = this->put(std::vector<float>(c.grad_y.size(), nan), before);
    this->on().avg_pool2d_forward(c.shape, c.batch, x.data() + before, y.data() + before);
    const std::vector<float> got = this->get(y.data() + before, c.grad_y.size());
    c.for_each_window([&](std::size_t at, const std::vector<std::size_t>& places) {
      double sum = 0;
      for (const std::size_t place : places) sum += static_cast<double>(c.x[place]);
      ASSERT_NEAR(got[at], sum / static_cast<double>(places.size()), 1e-6) << at;
    });
  });
}

TYPED_TEST(StreamPooling, SharesTheGradientOfTheMean) {
  for_each_case(false, [&](const pooling_case& c, std::size_t before) {
    const auto grad_y = this->put(c.grad_y, before);
    const auto grad_x = this->put(std::vector<float>(c.x.size(), nan), before);
    this->on().avg_pool2d_backward(c.shape, c.batch, grad_y.data() + before, grad_x.data() + before);
    std::vector<double> expected(c.x.size());
    c.for_each_window([&](std::size_t at, const std::vector<std::size_t>& places) {
      for (const std::size_t place : places)
        expected[place] += static_cast<double>(c.grad_y[at]) / static_cast<double>(places.size());
    });
    const std::vector<float> got = this->get(grad_x.data() + before, c.x.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6) << i;
  });
}

}  // namespace
}  // namespace troupe::kernels::test::stream_pooling_test
