// A stream's row softmax and its gradient against their formulas in double.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_softmax_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Rows of softmax(scale x) in double; with `causal`, only over numbers up to the diagonal.
std::vector<double> expected_softmax(std::size_t width, double scale, bool causal, const std::vector<float>& x) {
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    const std::size_t first = row * width;
    const std::size_t end = first + (causal ? row % width + 1 : width);
    double peak = -std::numeric_limits<double>::infinity();
    for (std::size_t at = first; at < end; ++at) peak = std::max(peak, scale * static_cast<double>(x[at]));
    double sum = 0;
    for (std::size_t at = first; at < end; ++at) sum += y[at] = std::exp(scale * static_cast<double>(x[at]) - peak);
    for (std::size_t at = first; at < end; ++at) y[at] /= sum;
  }
  return y;
}

void expect_softmax(stream& on, std::size_t rows, std::size_t width, float scale, bool causal,
                    const std::vector<float>& x, const std::vector<float>& grad_y) {
  SCOPED_TRACE(testing::Message() << rows << " x " << width << (causal ? ", causal" : ""));
  device_array<float> numbers;
  device_array<float> grad;
  assign<float>(on, x, numbers);
  assign<float>(on, grad_y, grad);
  on.softmax_forward(rows, width, scale, causal, numbers.data(), numbers.data());
  on.softmax_backward(rows, width, scale, numbers.data(), grad.data(), grad.data());
  std::vector<float> y(x.size());
  std::vector<float> grad_x(x.size());
  on.download(numbers.data(), y.data(), y.size() * sizeof(float));
  on.download(grad.data(), grad_x.data(), grad_x.size() * sizeof(float));
  on.synchronize();
  const auto expected = expected_softmax(width, static_cast<double>(scale), causal, x);
  for (std::size_t at = 0; at < x.size(); ++at) {
    const std::size_t first = at / width * width;
    double mean = 0;
    for (std::size_t i = first; i < first + width; ++i) mean += expected[i] * static_cast<double>(grad_y[i]);
    ASSERT_NEAR(y[at], expected[at], 1e-6) << at;
    ASSERT_NEAR(grad_x[at], static_cast<double>(scale) * expected[at] * (static_cast<double>(grad_y[at]) - mean), 2e-6)
        << at;
    const bool is_behind = causal && at % width > at / width % width;
    ASSERT_TRUE(!is_behind || y[at] == 0.0F) << at;
  }
}

template <class Place>
class StreamSoftmax : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamSoftmax, each_device, device_names);

TYPED_TEST(StreamSoftmax, IsTheFormulasOfEachRow) {
  for (const std::size_t width : {1, 2, 3, 7, 8, 31, 33, 70}) {
    for (const bool causal : {false, true}) {
      const std::size_t rows = 2 * width + 1;
      source_of_numbers random(static_cast<std::uint32_t>(width));
      auto x = random.numbers(rows * width);
      for (float& one : x) one *= 6;
      expect_softmax(this->on(), rows, width, 0.6F, causal, x, random.numbers(rows * width));
    }
  }
  this->on().softmax_forward(0, 4, 1, true, nullptr, nullptr);
  this->on().softmax_backward(0, 4, 1, nullptr, nullptr, nullptr);
}

TYPED_TEST(StreamSoftmax, IsFiniteOfTheLargestNumbers) {
  const std::vector<float> x = {3e38F, 3e38F, -3e38F, -3e38F, -3e38F, -3e38F, 1e30F, 0, -1e30F};
  expect_softmax(this->on(), 3, 3, 0.5F, false, x, std::vector<float>(9, 1.0F));
}

TYPED_TEST(StreamSoftmax, ShowsANan) {
  const auto numbers = this->put(std::vector<float>{1, nan, 2, 1, 1, 1});
  this->on().softmax_forward(2, 3, 1, false, numbers.data(), numbers.data());
  const auto y = this->get(numbers);
  for (std::size_t at = 0; at < 3; ++at) EXPECT_TRUE(std::isnan(y[at]));
  for (std::size_t at = 3; at < 6; ++at) EXPECT_NEAR(y[at], 1.0 / 3, 1e-6);
}

TEST(Softmax, IsTheFormulasOnEveryInstructionSet) {
  source_of_numbers random(3);
  const auto x = random.numbers(5 * 37);
  const auto grad_y = random.numbers(5 * 37);
  on_every_target([&] { expect_softmax(host_stream(), 5, 37, 2, false, x, grad_y); });
}

}  // namespace
}  // namespace troupe::kernels::test::stream_softmax_test
