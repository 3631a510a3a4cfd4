// Dense optimizer updates against the formulas in double.

#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::optimizer_test {
namespace {

class UpdateDenseBy : public testing::TestWithParam<optimizer_case> {};

TEST_P(UpdateDenseBy, FollowsTheFormulaForSeveralSteps) {
  const optimizer_case& c = GetParam();
  on_every_target([&] {
    for (const std::size_t count : odd_sizes) {
      source_of_numbers random(static_cast<std::uint32_t>(count));
      const std::vector<float> initial = random.numbers(count);
      optimized<float> got(c, initial);
      optimized<double> expected(c, initial);
      for (int t = 1; t <= 6; ++t) {
        const std::vector<float> grad = random.numbers(count);
        host_stream().update_dense(constants_of(c, t), count, got.weights.data(), got.view(), grad.data());
        for (std::size_t i = 0; i < count; ++i) {
          reference_step(c, t, expected, i, static_cast<double>(grad[i]));
          // About ten roundings per step, of values below 4.
          ASSERT_NEAR(got.weights[i], expected.weights[i], 4 * 10 * t * rounding) << "step " << t << " element " << i;
        }
      }
      for (std::size_t i = 0; i < got.first.size(); ++i) {
        ASSERT_NEAR(got.first[i], expected.first[i], 8 * 60 * rounding) << "element " << i;
      }
      for (std::size_t i = 0; i < got.second.size(); ++i) {
        ASSERT_NEAR(got.second[i], expected.second[i], 60 * rounding * expected.second[i] + 1e-9) << "element " << i;
      }
    }
  });
}

TEST_P(UpdateDenseBy, GivesTheSameBitsInPieces) {
  const optimizer_case& c = GetParam();
  on_every_target([&] {
    constexpr std::size_t count = 1000;
    source_of_numbers random(5);
    const std::vector<float> initial = random.numbers(count);
    optimized<float> whole(c, initial);
    optimized<float> pieces(c, initial);
    for (int t = 1; t <= 3; ++t) {
      const std::vector<float> grad = random.numbers(count);
      host_stream().update_dense(constants_of(c, t), count, whole.weights.data(), whole.view(), grad.data());
      for (std::size_t at = 0, step = 1; at < count; at += step, step = step * 2 + 1) {
        const std::size_t length = std::min(step, count - at);
        host_stream().update_dense(constants_of(c, t), length, &pieces.weights[at], pieces.view(at), &grad[at]);
      }
    }
    EXPECT_TRUE(same_bits(whole.weights, pieces.weights));
    EXPECT_TRUE(same_bits(whole.first, pieces.first));
    EXPECT_TRUE(same_bits(whole.second, pieces.second));
  });
}

INSTANTIATE_TEST_SUITE_P(Optimizers, UpdateDenseBy, testing::ValuesIn(optimizer_cases()),
                         [](const testing::TestParamInfo<optimizer_case>& tested) { return tested.param.name; });

TEST(UpdateDense, TouchesNothingWhenThereIsNothing) { host_stream().update_dense({}, 0, nullptr, {}, nullptr); }

TEST(UpdateDense, WithoutDecayTakesAnInfiniteWeightForWhatItIs) {
  update_constants c;
  c.lr = 0.1F;
  float weight = std::numeric_limits<float>::infinity();
  const float grad = 1;
  host_stream().update_dense(c, 1, &weight, {}, &grad);
  EXPECT_EQ(weight, std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace troupe::kernels::test::optimizer_test
