// A stream's normalisation against its formulas in double.

#include <cmath>
#include <limits>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_normalization_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float eps = 1e-3F;

constexpr channels_shape channel_shapes[] = {{1, 1, 1},   {2, 3, 1},    {5, 70, 1},   {600, 130, 1}, {4, 3, 7},
                                             {3, 65, 33}, {2, 2, 1000}, {64, 12, 49}, {1, 1, 63},    {1, 5, 128}};

struct rows_shape {
  std::size_t rows;
  std::size_t width;
};

constexpr rows_shape row_shapes[] = {{1, 1}, {0, 5}, {3, 2}, {5, 7}, {33, 64}, {7, 257}, {300, 16}, {2, 3000}};

std::vector<float> positive(source_of_numbers& random, std::size_t count) {
  std::vector<float> numbers = random.numbers(count);
  for (float& number : numbers) number = std::abs(number) + 0.1F;
  return numbers;
}

/// Compares with `expected`; errors are relative to `magnitude`.
void expect_near(const std::vector<float>& got, const std::vector<double>& expected,
                 const std::vector<double>& magnitude) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5 * magnitude[i] + 1e-12) << i;
}

/// Numbers by channels, each channel around its own center, and the channels' parameters.
struct channels_case {
  explicit channels_case(const channels_shape& its_shape)
      : shape(its_shape),
        random(static_cast<std::uint32_t>(shape.count())),
        x(random.numbers(shape.count())),
        grad_y(random.numbers(shape.count())),
        mean(random.numbers(shape.channels)),
        variance(positive(random, shape.channels)),
        weight(random.numbers(shape.channels)),
        bias(random.numbers(shape.channels)) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += 3.0F * static_cast<float>(channel(i) % 4);
  }

  std::size_t channel(std::size_t i) const { return i / shape.area % shape.channels; }
  double inverse(std::size_t c) const {
    return 1 / std::sqrt(static_cast<double>(variance[c]) + static_cast<double>(eps));
  }
  double xhat(std::size_t i) const {
    return (static_cast<double>(x[i]) - static_cast<double>(mean[channel(i)])) * inverse(channel(i));
  }

  channels_shape shape;
  source_of_numbers random;
  std::vector<float> x, grad_y, mean, variance, weight, bias;
};

template <class Body>
void for_each_channels_case(const Body& body) {
  for (const channels_shape& s : channel_shapes) {
    SCOPED_TRACE(std::to_string(s.batch) + " x " + std::to_string(s.channels) + " x " + std::to_string(s.area));
    for (const std::size_t before : {0, 1}) body(channels_case(s), before);
  }
}

template <class Place>
class StreamNormalization : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamNormalization, each_device, device_names);

TYPED_TEST(StreamNormalization, FindsMomentsOfChannelsFarFromZero) {
  for_each_channels_case([&](const channels_case& c, std::size_t before) {
    std::vector<float> far = c.x;
    for (std::size_t i = 0; i < far.size(); ++i) far[i] += 1000.0F;
    const auto count = static_cast<double>(c.shape.of_channel());
    std::vector<double> mean(c.shape.channels);
    std::vector<double> variance(c.shape.channels);
    for (std::size_t i = 0; i < far.size(); ++i) mean[c.channel(i)] += static_cast<double>(far[i]) / count;
    for (std::size_t i = 0; i < far.size(); ++i)
      variance[c.channel(i)] += std::pow(static_cast<double>(far[i]) - mean[c.channel(i)], 2) / count;
    const auto x = this->put(far, before);
    const auto moments = this->template buffer<float>(2 * c.shape.channels);
    this->on().channel_moments(c.shape, x.data() + before, moments.data(), moments.data() + c.shape.channels);
    const std::vector<float> got = this->get(moments);
    this->on().channel_moments(c.shape, x.data() + before, moments.data(), moments.data() + c.shape.channels);
    ASSERT_TRUE(same_bits(this->get(moments), got));
    for (std::size_t k = 0; k < c.shape.channels; ++k) {
      ASSERT_NEAR(got[k], mean[k], 1e-6 * mean[k]) << k;
      ASSERT_NEAR(got[c.shape.channels + k], variance[k], 1e-4 * variance[k] + 1e-6) << k;
    }
  });
}

TYPED_TEST(StreamNormalization, MovesRunningNumbersUnlessNotFinite) {
  const std::vector<float> x{1, nan, -2, inf, -inf, 0.5F};
  const std::vector<float> before{4, 5, 6, 7, 8, 9};
  const auto running = this->put(before);
  const auto there = this->put(x);
  this->on().update_running(x.size(), 0.25F, 1.5F, there.data(), running.data());
  const std::vector<float> got = this->get(running);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_FLOAT_EQ(got[i], std::isfinite(x[i]) ? 0.75F * before[i] + 0.25F * 1.5F * x[i] : before[i]) << i;
}

TYPED_TEST(StreamNormalization, NormalizesChannels) {
  for_each_channels_case([&](const channels_case& c, std::size_t before) {
    const auto x = this->put(c.x, before);
    const auto mean = this->put(c.mean);
    const auto variance = this->put(c.variance);
    const auto weight = this->put(c.weight);
    const auto bias = this->put(c.bias);
    for (const bool with_weight : {true, false}) {
      for (const bool with_bias : {true, false}) {
        const auto y = this->template buffer<float>(c.x.size() + before);
        this->on().batch_norm_forward(c.shape, x.data() + before, mean.data(), variance.data(), eps,
                                      with_weight ? weight.data() : nullptr, with_bias ? bias.data() : nullptr,
                                      y.data() + before);
        std::vector<double> expected(c.x.size());
        std::vector<double> magnitude(c.x.size());
        for (std::size_t i = 0; i < c.x.size(); ++i) {
          const double scaled = c.xhat(i) * (with_weight ? static_cast<double>(c.weight[c.channel(i)]) : 1.0);
          const double added = with_bias ? static_cast<double>(c.bias[c.channel(i)]) : 0.0;
          expected[i] = scaled + added;
          magnitude[i] = std::abs(scaled) + std::abs(added) + 0.1;
        }
        expect_near(this->get(y.data() + before, c.x.size()), expected, magnitude);
      }
    }
  });
  const auto ones = this->put(std::vector<float>(3, 1.0F));
  this->on().batch_norm_forward({0, 3, 4}, nullptr, ones.data(), ones.data(), eps, nullptr, nullptr, nullptr);
  this->on().synchronize();
}

TYPED_TEST(StreamNormalization, SumsGradientsOfChannels) {
  for_each_channels_case([&](const channels_case& c, std::size_t before) {
    const std::size_t channels = c.shape.channels;
    std::vector<double> expected(2 * channels);
    std::vector<double> magnitude(2 * channels);
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      const auto grad = static_cast<double>(c.grad_y[i]);
      expected[c.channel(i)] += grad;
      magnitude[c.channel(i)] += std::abs(grad);
      expected[channels + c.channel(i)] += grad * c.xhat(i);
      magnitude[channels + c.channel(i)] += std::abs(grad * c.xhat(i));
    }
    const auto x = this->put(c.x, before);
    const auto grad_y = this->put(c.grad_y, before);
    const auto mean = this->put(c.mean);
    const auto variance = this->put(c.variance);
    const auto sums = this->template buffer<float>(2 * channels);
    std::vector<std::vector<float>> results;
    for (int round = 0; round < 2; ++round) {
      this->on().batch_norm_sums(c.shape, x.data() + before, mean.data(), variance.data(), eps, grad_y.data() + before,
                                 sums.data(), sums.data() + channels);
      results.push_back(this->get(sums));
    }
    expect_near(results[0], expected, magnitude);
    ASSERT_TRUE(same_bits(results[0], results[1]));
  });
  const auto sums = this->put(std::vector<float>(6, nan));
  const auto ones = this->put(std::vector<float>(3, 1.0F));
  this->on().batch_norm_sums({0, 3, 4}, nullptr, ones.data(), ones.data(), eps, nullptr, sums.data(), sums.data() + 3);
  EXPECT_EQ(this->get(sums), std::vector<float>(6, 0.0F));
}

TYPED_TEST(StreamNormalization, PassesGradientsThroughTheStatistics) {
  for_each_channels_case([&](const channels_case& c, std::size_t before) {
    channels_case sums(c.shape);  // arbitrary numbers as sums
    const std::size_t count = 3 * c.shape.of_channel();
    const auto x = this->put(c.x, before);
    const auto grad_y = this->put(c.grad_y, before);
    const auto mean = this->put(c.mean);
    const auto variance = this->put(c.variance);
    const auto weight = this->put(c.weight);
    const auto sum = this->put(sums.bias);
    const auto sum_xhat = this->put(sums.mean);
    for (const bool with_weight : {true, false}) {
      const auto grad_x = this->template buffer<float>(c.x.size() + before);
      this->on().batch_norm_backward_input(c.shape, x.data() + before, mean.data(), variance.data(), eps,
                                           with_weight ? weight.data() : nullptr, sum.data(), sum_xhat.data(), count,
                                           grad_y.data() + before, grad_x.data() + before);
      std::vector<double> expected(c.x.size());
      std::vector<double> magnitude(c.x.size());
      for (std::size_t i = 0; i < c.x.size(); ++i) {
        const std::size_t k = c.channel(i);
        const double scale = c.inverse(k) * (with_weight ? static_cast<double>(c.weight[k]) : 1.0);
        const auto n = static_cast<double>(count);
        const double passed = static_cast<double>(sums.bias[k]) / n;
        const double slope = c.xhat(i) * static_cast<double>(sums.mean[k]) / n;
        expected[i] = scale * (static_cast<double>(c.grad_y[i]) - passed - slope);
        magnitude[i] = std::abs(scale) * (1 + std::abs(passed) + std::abs(slope));
      }
      expect_near(this->get(grad_x.data() + before, c.x.size()), expected, magnitude);
    }
  });
}

/// Rows, their moments in double, and the weight and bias of layer normalisation.
struct rows_case {
  explicit rows_case(const rows_shape& s)
      : rows(s.rows),
        width(s.width),
        random(static_cast<std::uint32_t>(rows * 1000 + width)),
        x(random.numbers(rows * width)),
        weight(random.numbers(width)),
        bias(random.numbers(width)),
        grad_y(random.numbers(rows * width)),
        mean(rows),
        inverse(rows) {
    const auto n = static_cast<double>(width);
    for (std::size_t i = 0; i < x.size(); ++i) mean[i / width] += static_cast<double>(x[i] += 5.0F) / n;
    for (std::size_t i = 0; i < x.size(); ++i) inverse[i / width] += std::pow(deviation(i), 2) / n;
    for (double& number : inverse) number = 1 / std::sqrt(number + static_cast<double>(eps));
  }

  double deviation(std::size_t i) const { return static_cast<double>(x[i]) - mean[i / width]; }
  double xhat(std::size_t i) const { return deviation(i) * inverse[i / width]; }
  std::vector<float> means() const { return {mean.begin(), mean.end()}; }
  std::vector<float> inverses() const { return {inverse.begin(), inverse.end()}; }

  std::size_t rows, width;
  source_of_numbers random;
  std::vector<float> x, weight, bias, grad_y;
  std::vector<double> mean, inverse;
};

template <class Body>
void for_each_rows_case(const Body& body) {
  for (const rows_shape& s : row_shapes) {
    SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.width));
    for (const std::size_t before : {0, 1}) body(rows_case(s), before);
  }
}

TYPED_TEST(StreamNormalization, NormalizesRows) {
  for_each_rows_case([&](const rows_case& c, std::size_t before) {
    const auto x = this->put(c.x, before);
    const auto weight = this->put(c.weight, before);
    const auto bias = this->put(c.bias, before);
    const auto mean = this->template buffer<float>(c.rows);
    const auto inverse = this->template buffer<float>(c.rows);
    const auto y = this->template buffer<float>(c.x.size() + before);
    this->on().layer_norm_forward(c.rows, c.width, x.data() + before, eps, weight.data() + before, bias.data() + before,
                                  mean.data(), inverse.data(), y.data() + before);
    expect_near(this->get(mean), c.mean, c.mean);
    expect_near(this->get(inverse), c.inverse, c.inverse);
    std::vector<double> expected(c.x.size());
    // The mean's rounding error is relative to the mean, and a row of equal numbers magnifies it most.
    std::vector<double> magnitude(c.x.size());
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      expected[i] = c.xhat(i) * static_cast<double>(c.weight[i % c.width]) + static_cast<double>(c.bias[i % c.width]);
      magnitude[i] = 1 + std::abs(c.xhat(i)) + c.inverse[i / c.width];
    }
    expect_near(this->get(y.data() + before, c.x.size()), expected, magnitude);
  });
}

TYPED_TEST(StreamNormalization, PassesGradientsThroughRows) {
  for_each_rows_case([&](const rows_case& c, std::size_t before) {
    const auto x = this->put(c.x, before);
    const auto weight = this->put(c.weight, before);
    const auto grad_y = this->put(c.grad_y, before);
    const auto mean = this->put(c.means());
    const auto inverse = this->put(c.inverses());
    const auto grad_x = this->template buffer<float>(c.x.size() + before);
    this->on().layer_norm_backward_input(c.rows, c.width, x.data() + before, mean.data(), inverse.data(),
                                         weight.data() + before, grad_y.data() + before, grad_x.data() + before);
    std::vector<double> expected(c.x.size());
    std::vector<double> magnitude(c.x.size());
    for (std::size_t r = 0; r < c.rows; ++r) {
      const auto scaled = [&](std::size_t j) {
        return static_cast<double>(c.grad_y[r * c.width + j]) * static_cast<double>(c.weight[j]);
      };
      double sum = 0;
      double sum_xhat = 0;
      for (std::size_t j = 0; j < c.width; ++j) {
        sum += scaled(j) / static_cast<double>(c.width);
        sum_xhat += scaled(j) * c.xhat(r * c.width + j) / static_cast<double>(c.width);
      }
      for (std::size_t j = 0; j < c.width; ++j) {
        const std::size_t i = r * c.width + j;
        expected[i] = c.inverse[r] * (scaled(j) - sum - c.xhat(i) * sum_xhat);
        magnitude[i] = c.inverse[r] * (2 + std::abs(c.xhat(i)) + c.inverse[r]);
      }
    }
    expect_near(this->get(grad_x.data() + before, c.x.size()), expected, magnitude);
  });
}

TYPED_TEST(StreamNormalization, SumsGradientsOfRows) {
  for_each_rows_case([&](const rows_case& c, std::size_t before) {
    std::vector<double> expected(2 * c.width);
    std::vector<double> magnitude(2 * c.width);
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      const auto grad = static_cast<double>(c.grad_y[i]);
      expected[i % c.width] += grad * c.xhat(i);
      magnitude[i % c.width] += std::abs(grad) * (std::abs(c.xhat(i)) + c.inverse[i / c.width]);
      expected[c.width + i % c.width] += grad;
      magnitude[c.width + i % c.width] += std::abs(grad);
    }
    const auto x = this->put(c.x, before);
    const auto grad_y = this->put(c.grad_y, before);
    const auto mean = this->put(c.means());
    const auto inverse = this->put(c.inverses());
    const auto grads = this->put(std::vector<float>(2 * c.width, nan));
    this->on().layer_norm_backward_parameters(c.rows, c.width, x.data() + before, mean.data(), inverse.data(),
                                              grad_y.data() + before, grads.data(), grads.data() + c.width);
    expect_near(this->get(grads), expected, magnitude);
  });
}

}  // namespace
}  // namespace troupe::kernels::test::stream_normalization_test
