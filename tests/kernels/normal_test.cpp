// Normal numbers against the mathematics library; all instruction sets give the same bits.

#include "kernels/normal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/random_bits.hpp"
#include "tests/kernels/support.hpp"
#include "tests/kernels/unmixed.hpp"

namespace troupe::kernels::test::normal_test {
namespace {

void expect_number(std::uint64_t key, std::uint64_t i, float number) {
  const double u1 = unit_from(random_bits(key, 2 * i));
  const double u2 = unit_from(random_bits(key, 2 * i + 1));
  const double expected = std::sqrt(-2 * std::log(1 - u1)) * std::cos(2 * std::acos(-1.0) * u2);
  ASSERT_NEAR(number, expected, 1e-9 + std::fabs(expected) * 6e-8) << u1 << " " << u2;
}

TEST(Normals, AreAsAccurateAsTheLibrarysFunctions) {
  std::vector<float> out(200'000);
  draw_normals(1, out.size(), out.data());
  for (std::size_t i = 0; i < out.size(); ++i) expect_number(1, i, out[i]);
}

TEST(Normals, AreAccurateAtBothEndsOfTheUniformNumbers) {
  static_assert(unmix(mix(0x123456789abcdef0)) == 0x123456789abcdef0);
  for (const std::uint64_t bits : extreme_bits) {
    for (const std::uint64_t counter : {0, 1}) {
      const std::uint64_t key = key_for(bits, counter);
      ASSERT_EQ(random_bits(key, counter), bits);
      std::vector<float> out(9);
      draw_normals(key, out.size(), out.data());
      for (std::size_t i = 0; i < out.size(); ++i) expect_number(key, i, out[i]);
    }
  }
}

TEST(Normals, HaveTheSameBitsOnEveryTargetAndInAnyNumber) {
  for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{42}, ~std::uint64_t{0}}) {
    std::vector<float> expected(5000);
    draw_normals(key, expected.size(), expected.data());
    on_every_target([&] {
      std::vector<float> out(expected.size());
      draw_normals(key, out.size(), out.data());
      EXPECT_TRUE(same_bits(out, expected));
      for (const std::size_t count : odd_sizes) {
        std::vector<float> some(count + 1, 77.0F);
        draw_normals(key, count, some.data());
        EXPECT_TRUE(same_bits({some.data(), count}, {expected.data(), count})) << count;
        EXPECT_EQ(some[count], 77.0F);
      }
    });
  }
}

TEST(DrawnNumbers, AreTheNormalTimesADeviation) {
  std::vector<float> standard(101);
  std::vector<float> scaled(standard.size());
  draw_normals(9, standard.size(), standard.data());
  draw_numbers({row_init::kind::normal, 0.01}, 9, scaled.size(), scaled.data());
  for (std::size_t i = 0; i < scaled.size(); ++i) ASSERT_EQ(scaled[i], standard[i] * 0.01F);
  draw_numbers({}, 9, scaled.size(), scaled.data());
  EXPECT_TRUE(same_bits(scaled, standard));
}

TEST(DrawnNumbers, AreUniformHashesOnEveryTargetAndInAnyNumber) {
  const row_init from{row_init::kind::uniform, -0.25, 1.5};
  std::vector<float> expected(101);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = static_cast<float>(from.first + unit_from(random_bits(9, i)) * (from.second - from.first));
  EXPECT_LT(*std::ranges::min_element(expected), 0);
  EXPECT_GT(*std::ranges::max_element(expected), 1.25);
  on_every_target([&] {
    for (std::size_t count = 0; count <= expected.size(); ++count) {
      std::vector<float> some(count + 1, 77.0F);
      draw_numbers(from, 9, count, some.data());
      EXPECT_TRUE(same_bits({some.data(), count}, {expected.data(), count})) << count;
      EXPECT_EQ(some[count], 77.0F);
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::test::normal_test
