#include "model/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "kernels/normal.hpp"

namespace troupe::model::random_test {
namespace {

std::vector<float> normals(std::uint64_t key, std::size_t count) {
  std::vector<float> numbers(count);
  kernels::draw_normals(key, numbers.size(), numbers.data());
  return numbers;
}

// The published first outputs of SplitMix64 for the seed 1234567.
TEST(Random, IsSplitmix64) {
  EXPECT_EQ(random_bits(1234567, 0), 6457827717110365317U);
  EXPECT_EQ(random_bits(1234567, 1), 3203168211198807973U);
  EXPECT_EQ(random_bits(1234567, 2), 9817491932198370423U);
  random_sequence sequence(1234567);
  EXPECT_EQ(sequence.bits(), 6457827717110365317U);
  EXPECT_EQ(sequence.bits(), 3203168211198807973U);
}

TEST(Random, BelowStaysBelowAndReachesEveryValue) {
  random_sequence sequence(1);
  std::map<std::uint64_t, int> count;
  for (int i = 0; i < 70000; ++i) ++count[sequence.below(7)];
  ASSERT_EQ(count.size(), 7U);
  EXPECT_EQ(count.rbegin()->first, 6U);
  // 10000 expected, deviation 93.
  for (const auto& [value, times] : count) EXPECT_NEAR(times, 10000, 500) << value;
}

// Expected values from the documented formula, computed in Python.
TEST(Random, NormalAndUniformFollowTheFormula) {
  constexpr auto last_key = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FLOAT_EQ(normals(1, 1)[0], -0.03426732122898102F);
  EXPECT_FLOAT_EQ(normals(1, 2)[1], -2.5000674724578857F);
  EXPECT_FLOAT_EQ(normals(42, 1'000'001)[1000000], 0.04679373279213905F);
  EXPECT_FLOAT_EQ(normals(last_key, 9)[7], -0.30823928117752075F);
  EXPECT_EQ(uniform(1, 0, -0.25F, 0.5F), 0.1749211847782135F);
  EXPECT_EQ(uniform(42, 1000000, -0.25F, 0.5F), 0.2665836811065674F);
  EXPECT_EQ(uniform(last_key, 7, -0.25F, 0.5F), -0.06142835691571236F);
}

TEST(Random, NormalsTakeTheStreamsNumbersTwoByTwo) {
  const auto numbers = normals(9, 1000);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    const double u1 = 1 - unit_from(random_bits(9, 2 * i));
    const double u2 = unit_from(random_bits(9, 2 * i + 1));
    const double expected = std::sqrt(-2 * std::log(u1)) * std::cos(2 * std::acos(-1.0) * u2);
    ASSERT_NEAR(numbers[i], expected, 1e-9 + std::fabs(expected) * 6e-8) << i;
  }
}

TEST(Random, ANumberDoesNotDependOnHowManyAreAskedFor) {
  const auto many = normals(5, 300);
  for (std::size_t count = 0; count < 300; ++count) {
    const auto some = normals(5, count);
    ASSERT_TRUE(std::equal(some.begin(), some.end(), many.begin())) << count;
  }
}

TEST(Random, NormalHasTheMomentsOfANormalDistribution) {
  constexpr int count = 1'000'000;
  std::array<double, 5> moment{};
  for (const double x : normals(3, count)) {
    for (std::size_t k = 1; k < moment.size(); ++k) moment[k] += std::pow(x, k) / count;
  }
  EXPECT_NEAR(moment[1], 0, 0.005);
  EXPECT_NEAR(moment[2], 1, 0.01);
  EXPECT_NEAR(moment[3], 0, 0.02);
  EXPECT_NEAR(moment[4], 3, 0.05);
}

TEST(Random, KeysOfDifferentStreamsDiffer) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (const auto stream : {random_stream::table_weights, random_stream::shuffle, random_stream::tutorial}) {
      for (std::uint64_t a = 0; a < 5; ++a) {
        for (std::uint64_t b = 0; b < 5; ++b) keys.insert(random_key(seed, stream, a, b));
      }
    }
  }
  EXPECT_EQ(keys.size(), 5U * 3 * 5 * 5);
}

TEST(Shuffled, IsAPermutationOfEverySmallRange) {
  for (const std::uint64_t key : {0U, 77U}) {
    for (std::uint64_t n = 1; n <= 1000; ++n) {
      std::vector<bool> seen(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t place = shuffled(n, key, i);
        ASSERT_LT(place, n);
        ASSERT_FALSE(seen[place]) << n;
        seen[place] = true;
      }
    }
  }
}

TEST(Shuffled, NeverRepeatsInALargeRange) {
  for (const std::uint64_t n : {(std::uint64_t{1} << 40) + 7, std::numeric_limits<std::uint64_t>::max()}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 50000; ++i) {
      // Both neighbours and distant indices.
      const std::uint64_t place = shuffled(n, 5, i % 2 == 0 ? i : n - i);
      ASSERT_LT(place, n);
      ASSERT_TRUE(seen.insert(place).second);
    }
  }
}

TEST(Shuffled, AllOrdersOfASmallRangeAreAboutAsFrequent) {
  std::map<std::vector<std::uint64_t>, int> count;
  for (std::uint64_t key = 0; key < 24000; ++key) {
    ++count[{shuffled(4, key, 0), shuffled(4, key, 1), shuffled(4, key, 2), shuffled(4, key, 3)}];
  }
  ASSERT_EQ(count.size(), 24U);
  // 1000 expected, deviation 31.
  for (const auto& [order, times] : count) EXPECT_NEAR(times, 1000, 160);
}

TEST(Shuffled, PlacesDoNotDependOnThePosition) {
  constexpr std::uint64_t n = 32561;
  double product = 0;
  std::uint64_t fixed = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t place = shuffled(n, 11, i);
    fixed += place == i ? 1 : 0;
    product += (static_cast<double>(i) / n - 0.5) * (static_cast<double>(place) / n - 0.5);
  }
  // Correlation 0 with deviation 1 / sqrt(n) = 0.0055; one fixed point expected.
  EXPECT_NEAR(product / n * 12, 0, 0.025);
  EXPECT_LT(fixed, 8U);
}

}  // namespace
}  // namespace troupe::model::random_test
