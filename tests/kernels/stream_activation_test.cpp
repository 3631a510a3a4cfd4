// A stream's GELU against erf in double, dropout against its definition, and fused multiply-add.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/random_bits.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_activation_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

double distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Numbers from -20 to 20, near 0, and large ones.
std::vector<float> places_of_gelu() {
  std::vector<float> x;
  for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) / 1000);
  for (const float size : {1e-30F, 1e-10F, 1e-5F, 1e5F, 1e30F}) x.insert(x.end(), {size, -size});
  return x;
}

template <class Place>
class StreamActivation : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamActivation, each_device, device_names);

TYPED_TEST(StreamActivation, GeluIsXTimesTheDistribution) {
  const std::vector<float> x = places_of_gelu();
  for (const std::size_t before : {0, 1}) {
    for (const bool in_place : {false, true}) {
      const auto device_x = this->put(x, before);
      const auto y = in_place ? this->put(x, before) : this->template buffer<float>(x.size() + before);
      const float* const from = in_place ? y.data() : device_x.data();
      this->on().gelu_forward(x.size(), from + before, y.data() + before);
      const std::vector<float> got = this->get(y.data() + before, x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double size = std::abs(static_cast<double>(x[i]));
        ASSERT_NEAR(got[i], x[i] * distribution(x[i]), 5e-7 * size) << x[i];
        if (size > 0 && size < 5) {
          ASSERT_NEAR(got[i] / (x[i] * distribution(x[i])), 1, 1e-5) << x[i];
        }
      }
    }
  }
}

TYPED_TEST(StreamActivation, GeluPassesItsSlope) {
  const std::vector<float> x = places_of_gelu();
  source_of_numbers random(1);
  const std::vector<float> grad_y = random.numbers(x.size());
  const auto device_x = this->put(x);
  const auto device_grad = this->put(grad_y);
  const auto grad_x = this->template buffer<float>(x.size());
  this->on().gelu_backward(x.size(), device_x.data(), device_grad.data(), grad_x.data());
  const std::vector<float> got = this->get(grad_x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    const double density = std::exp(-at * at / 2) / std::sqrt(2 * std::numbers::pi);
    ASSERT_NEAR(got[i], static_cast<double>(grad_y[i]) * (distribution(at) + at * density), 1e-6) << at;
  }
}

TYPED_TEST(StreamActivation, GeluShowsANan) {
  const auto x = this->put(std::vector<float>{1, nan, 2, inf});
  const auto ones = this->put(std::vector<float>(4, 1.0F));
  const auto y = this->template buffer<float>(4);
  this->on().gelu_forward(4, x.data(), y.data());
  const std::vector<float> forward = this->get(y);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(std::isnan(forward[i]), i == 1);
  EXPECT_EQ(forward[3], inf);
  this->on().gelu_backward(3, x.data(), ones.data(), y.data());
  const std::vector<float> backward = this->get(y.data(), 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(std::isnan(backward[i]), i == 1);
}

TYPED_TEST(StreamActivation, DropoutDropsWhatTheHashSays) {
  constexpr std::size_t rows = 5;
  for (const std::size_t width : odd_sizes) {
    for (const std::uint32_t threshold : {0U, 1U << 30, 0x9abcdef0U, ~0U}) {
      for (const std::size_t before : {0, 1}) {
        const dropout_mask mask{0x123456789abcdefU + width, (std::uint64_t{1} << 40) + 3, threshold, 1.7F};
        source_of_numbers random(static_cast<std::uint32_t>(width));
        std::vector<float> x = random.numbers(rows * width);
        x[0] = nan;
        std::vector<float> expected(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::uint64_t bits = random_bits(random_bits(mask.key, mask.first_row + i / width), i % width);
          expected[i] = bits >> 32 < threshold ? 0.0F : x[i] * mask.scale;
        }
        const auto in_place = this->put(x, before);
        this->on().dropout(mask, rows, width, in_place.data() + before, in_place.data() + before);
        const std::vector<float> got = this->get(in_place.data() + before, x.size());
        EXPECT_EQ(std::isnan(got[0]), std::isnan(expected[0]));
        ASSERT_TRUE(same_bits({got.data() + 1, got.size() - 1}, {expected.data() + 1, expected.size() - 1}))
            << width << " " << threshold;
      }
    }
  }
  this->on().dropout({}, 0, 3, nullptr, nullptr);
  this->on().synchronize();
}

TEST(Dropout, HasTheSameBitsOnEveryInstructionSet) {
  source_of_numbers random(1);
  const std::vector<float> x = random.numbers(7 * 101);
  std::vector<float> expected(x.size());
  host_stream().dropout({3, 4, 1U << 31, 2.0F}, 7, 101, x.data(), expected.data());
  on_every_target([&] {
    std::vector<float> y(x.size());
    host_stream().dropout({3, 4, 1U << 31, 2.0F}, 7, 101, x.data(), y.data());
    EXPECT_TRUE(same_bits(y, expected));
  });
}

TYPED_TEST(StreamActivation, DropoutKeepsTheShareThatItShould) {
  constexpr std::size_t rows = 300;
  constexpr std::size_t width = 333;
  const auto x = this->put(std::vector<float>(rows * width, 1.0F));
  this->on().dropout({7, 0, 0x40000000U, 2.0F}, rows, width, x.data(), x.data());
  const std::vector<float> got = this->get(x);
  const auto dropped = static_cast<double>(std::ranges::count(got, 0.0F));
  EXPECT_NEAR(dropped / (rows * width), 0.25, 0.007);  // five standard deviations
}

TYPED_TEST(StreamActivation, MultipliesAndAddsInPlace) {
  for (const std::size_t count : odd_sizes) {
    source_of_numbers random(static_cast<std::uint32_t>(count));
    const std::vector<std::vector<float>> in{random.numbers(count), random.numbers(count), random.numbers(count)};
    for (const bool with_c : {true, false}) {
      for (std::size_t to = 0; to < (with_c ? 4U : 3U); ++to) {  // into a, b, a new buffer, or c
        const device_array<float> all[] = {this->put(in[0], 1), this->put(in[1], 1),
                                           this->put(std::vector<float>(count, nan), 1), this->put(in[2], 1)};
        float* const y = all[to].data() + 1;
        this->on().multiply_add(count, all[0].data() + 1, all[1].data() + 1, with_c ? all[3].data() + 1 : nullptr, y);
        const std::vector<float> got = this->get(y, count);
        for (std::size_t i = 0; i < count; ++i) {
          const double product = static_cast<double>(in[0][i]) * static_cast<double>(in[1][i]);
          const double added = with_c ? static_cast<double>(in[2][i]) : 0.0;
          ASSERT_NEAR(got[i], product + added, rounding * (2 * std::abs(product) + std::abs(added)));
        }
      }
    }
  }
  this->on().multiply_add(0, nullptr, nullptr, nullptr, nullptr);
  this->on().synchronize();
}

}  // namespace
}  // namespace troupe::kernels::test::stream_activation_test
