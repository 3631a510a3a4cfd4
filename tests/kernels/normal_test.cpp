// Normal numbers against the mathematics library; the bits are the same on every instruction set.

#include "kernels/normal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::normal_test {
namespace {

/// Uniform numbers of 53 bits, and both ends of their range.
struct uniform_pairs {
  std::vector<double> u1 = {0, 0x1p-53, 1 - 0x1p-53, 0.5, 0.25, 1 - 0.70710678118654752};
  std::vector<double> u2 = {0, 0.25, 0.5, 0.75, 1 - 0x1p-53, 0x1p-53};

  explicit uniform_pairs(std::size_t count) {
    std::mt19937_64 bits(1);
    while (u1.size() < count) {
      u1.push_back(static_cast<double>(bits() >> 11) * 0x1p-53);
      u2.push_back(static_cast<double>(bits() >> 11) * 0x1p-53);
    }
  }
};

TEST(BoxMuller, IsAsAccurateAsTheLibrarysFunctions) {
  const uniform_pairs pairs(200'000);
  std::vector<float> out(pairs.u1.size());
  box_muller(out.size(), pairs.u1.data(), pairs.u2.data(), out.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double expected = std::sqrt(-2 * std::log(1 - pairs.u1[i])) * std::cos(2 * std::acos(-1.0) * pairs.u2[i]);
    ASSERT_NEAR(out[i], expected, 1e-9 + std::fabs(expected) * 6e-8) << pairs.u1[i] << " " << pairs.u2[i];
  }
}

TEST(BoxMuller, HasTheSameBitsOnEveryTargetAndInAnyNumber) {
  const uniform_pairs pairs(5000);
  std::vector<float> expected(pairs.u1.size());
  for (std::size_t i = 0; i < expected.size(); ++i) box_muller(1, &pairs.u1[i], &pairs.u2[i], &expected[i]);
  on_every_target([&] {
    std::vector<float> out(expected.size());
    box_muller(out.size(), pairs.u1.data(), pairs.u2.data(), out.data());
    EXPECT_TRUE(same_bits(out, expected));
    for (const std::size_t count : odd_sizes) {
      std::vector<float> some(count + 1, 77.0F);
      box_muller(count, pairs.u1.data(), pairs.u2.data(), some.data());
      EXPECT_TRUE(same_bits({some.data(), count}, {expected.data(), count})) << count;
      EXPECT_EQ(some[count], 77.0F);
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::test::normal_test
