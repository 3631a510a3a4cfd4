// ReLU, ordered sums and the search for NaN and Inf.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/device.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::elementwise_test {
namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Relu, KeepsWhatIsPositive) {
  on_every_target([] {
    for (const std::size_t count : odd_sizes) {
      source_of_numbers random(static_cast<std::uint32_t>(count));
      const std::vector<float> x = random.numbers(count);
      std::vector<float> y(count);
      host_stream().relu_forward(count, x.data(), y.data());
      std::vector<float> in_place = x;
      host_stream().relu_forward(count, in_place.data(), in_place.data());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(y[i], x[i] > 0 ? x[i] : 0.0F);
      EXPECT_TRUE(same_bits(y, in_place));
    }
  });
}

TEST(Relu, KeepsNanAndInfinity) {
  on_every_target([] {
    for (std::size_t at = 0; at < 33; ++at) {
      std::vector<float> x(33, -1.0F);
      x[at] = nan_value;
      x[(at + 1) % 33] = infinity;
      x[(at + 2) % 33] = -infinity;
      host_stream().relu_forward(33, x.data(), x.data());
      ASSERT_TRUE(std::isnan(x[at]));
      ASSERT_EQ(x[(at + 1) % 33], infinity);
      ASSERT_EQ(x[(at + 2) % 33], 0.0F);
    }
  });
}

TEST(Relu, PassesTheGradientWhereTheOutputIsPositive) {
  on_every_target([] {
    for (const std::size_t count : odd_sizes) {
      source_of_numbers random(static_cast<std::uint32_t>(count));
      std::vector<float> y = random.numbers(count);
      host_stream().relu_forward(count, y.data(), y.data());
      const std::vector<float> grad_y = random.numbers(count);
      std::vector<float> grad_x = grad_y;
      host_stream().relu_backward(count, y.data(), grad_x.data(), grad_x.data());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(grad_x[i], y[i] > 0 ? grad_y[i] : 0.0F);
    }
  });
}

TEST(SumInRankOrder, AddsFromTheFirstRankOnAndScalesLast) {
  on_every_target([] {
    for (const std::size_t count : odd_sizes) {
      source_of_numbers random(static_cast<std::uint32_t>(count));
      std::vector<std::vector<float>> ranks;
      std::vector<const float*> in;
      for (std::size_t rank = 0; rank < 5; ++rank) ranks.push_back(random.numbers(count));
      for (const auto& rank : ranks) in.push_back(rank.data());
      for (std::size_t used = 1; used <= ranks.size(); ++used) {
        std::vector<float> expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          float sum = ranks[0][i];
          for (std::size_t rank = 1; rank < used; ++rank) sum += ranks[rank][i];
          expected[i] = 0.3F * sum;
        }
        std::vector<float> out(count);
        host_stream().sum_in_rank_order({in.data(), used}, count, 0.3F, out.data());
        ASSERT_TRUE(same_bits(out, expected)) << "count " << count << " ranks " << used;
      }
    }
  });
}

TEST(SumInRankOrder, MayWriteToAnyOfItsInputs) {
  constexpr std::size_t count = 100;
  source_of_numbers random(3);
  const std::vector<std::vector<float>> ranks = {random.numbers(count), random.numbers(count), random.numbers(count)};
  std::vector<float> expected(count);
  const float* const in[] = {ranks[0].data(), ranks[1].data(), ranks[2].data()};
  host_stream().sum_in_rank_order(in, count, 0.5F, expected.data());
  for (std::size_t target = 0; target < 3; ++target) {
    auto buffers = ranks;
    const float* const aliased[] = {buffers[0].data(), buffers[1].data(), buffers[2].data()};
    host_stream().sum_in_rank_order(aliased, count, 0.5F, buffers[target].data());
    EXPECT_TRUE(same_bits(buffers[target], expected)) << "target " << target;
  }
}

TEST(FindNonFinite, GivesTheFirstPosition) {
  on_every_target([] {
    for (const std::size_t count : odd_sizes) {
      for (const float bad : {nan_value, -nan_value, infinity, -infinity}) {
        for (std::size_t at = 0; at < count; ++at) {
          std::vector<float> x(count, std::numeric_limits<float>::max());
          x[at] = bad;
          x.back() = bad;
          ASSERT_EQ(result_of(&stream::find_non_finite, count, x.data()).place, at);
        }
      }
    }
  });
}

TEST(FindNonFinite, GivesTheCountIfAllAreFinite) {
  on_every_target([] {
    const float extremes[] = {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::denorm_min(), -0.0F};
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{33}, std::size_t{10000}}) {
      std::vector<float> x(count);
      for (std::size_t i = 0; i < count; ++i) x[i] = extremes[i % 4];
      ASSERT_EQ(result_of(&stream::find_non_finite, count, x.data()).place, count);
    }
  });
}

TEST(FindNonFinite, LooksBeyondTheFirstChunks) {
  std::vector<float> x(20000, 1.0F);
  x[19999] = infinity;
  x[12345] = nan_value;
  EXPECT_EQ(result_of(&stream::find_non_finite, x.size(), x.data()).place, 12345U);
  EXPECT_EQ(result_of(&stream::find_non_finite, x.size() - 12346, x.data() + 12346).place, 19999U - 12346U);
}

}  // namespace
}  // namespace troupe::kernels::test::elementwise_test
