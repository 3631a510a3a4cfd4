// The exact sum against integers of arbitrary length, in every order and split into any number of parts.

#include "model/exact_sum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "model/random.hpp"

namespace troupe::model::exact_sum_test {
namespace {

using integer = boost::multiprecision::cpp_int;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tiniest = std::numeric_limits<double>::denorm_min();
constexpr double largest = std::numeric_limits<double>::max();

/// x in units of the smallest double.
integer units(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  const integer mantissa(static_cast<std::uint64_t>(std::ldexp(fraction, 53)));
  const int shift = exponent - 53 + 1074;
  return shift >= 0 ? integer(mantissa << shift) : integer(mantissa >> -shift);
}

exact_sum sum_of(const std::vector<double>& numbers) {
  exact_sum sum;
  for (const double x : numbers) sum.add(x);
  return sum;
}

std::vector<std::int64_t> limbs_of(exact_sum sum) {
  const auto limbs = sum.limbs();
  return {limbs.begin(), limbs.end()};
}

/// Expects that no double is nearer to the exact sum, and that of two equally near ones the even mantissa is chosen.
void expect_nearest(const std::vector<double>& numbers) {
  integer truth = 0;
  for (const double x : numbers) truth += units(x);
  const double value = sum_of(numbers).value();
  ASSERT_TRUE(std::isfinite(value));
  const integer error = abs(integer(truth - units(value)));
  const bool is_even = std::bit_cast<std::uint64_t>(value) % 2 == 0;
  for (const double other : {std::nextafter(value, 0.0), std::nextafter(value, largest)}) {
    if (other == value) continue;
    const integer other_error = abs(integer(truth - units(other)));
    ASSERT_TRUE(error < other_error || (error == other_error && is_even)) << value << " or " << other;
  }
}

/// Numbers of all sizes that a double can have, or of those that sums of squared floats can have.
std::vector<double> random_numbers(random_sequence& random, std::size_t count, int low, int high) {
  std::vector<double> numbers(count);
  for (double& x : numbers)
    x = std::ldexp(random.unit(), low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low))));
  return numbers;
}

TEST(ExactSum, IsTheDoubleNearestToTheTrueSum) {
  random_sequence random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t count = 1 + random.below(30);
    expect_nearest(random_numbers(random, count, -1100, 1000));
    expect_nearest(random_numbers(random, count, -298, 256));
    expect_nearest(random_numbers(random, count, -60, 0));
    expect_nearest(random_numbers(random, count, -1100, -1000));
  }
}

TEST(ExactSum, RoundsTiesToEvenAndAHairBeyondUp) {
  const double big = 0x1p53;
  EXPECT_EQ(sum_of({big, 1}).value(), big);
  EXPECT_EQ(sum_of({big, 1, tiniest}).value(), big + 2);
  EXPECT_EQ(sum_of({big + 2, 1}).value(), big + 4);
  EXPECT_EQ(sum_of({0x1p500, tiniest}).value(), 0x1p500);
  EXPECT_EQ(sum_of({}).value(), 0);
  EXPECT_EQ(sum_of({0.0, -0.0}).value(), 0);
  EXPECT_EQ(sum_of({tiniest}).value(), tiniest);
  EXPECT_EQ(sum_of({tiniest, tiniest, tiniest}).value(), 3 * tiniest);
  EXPECT_EQ(sum_of({0x1p-1022, tiniest}).value(), 0x1p-1022 + tiniest);
  EXPECT_EQ(sum_of({largest}).value(), largest);
}

TEST(ExactSum, OfMoreThanTheLargestDoubleIsInfinite) {
  EXPECT_EQ(sum_of({largest, largest}).value(), infinity);
  exact_sum sum = sum_of({largest});
  for (int i = 0; i < 40; ++i) sum.merge(exact_sum(sum));  // 2^40 times the largest
  EXPECT_EQ(sum.value(), infinity);
}

TEST(ExactSum, HasTheSameBitsInAnyOrderAndAnySplit) {
  random_sequence random(2);
  for (int i = 0; i < 200; ++i) {
    auto numbers = random_numbers(random, 200, -298, 256);
    const auto expected = limbs_of(sum_of(numbers));
    for (int k = 0; k < 3; ++k) {
      for (std::size_t j = numbers.size(); j > 1; --j) std::swap(numbers[j - 1], numbers[random.below(j)]);
      std::vector<exact_sum> parts(1 + random.below(7));
      for (const double x : numbers) parts[random.below(parts.size())].add(x);
      exact_sum whole;
      for (exact_sum& part : parts) {
        const auto received = exact_sum::from(part.limbs());
        ASSERT_TRUE(received);
        whole.merge(*received);
      }
      ASSERT_EQ(limbs_of(whole), expected);
    }
  }
}

// Long doubles hold these exactly: sums of 1000 numbers of 24 bits, up to 2^30.
TEST(ExactSum, OfSmallIntegersIsThatOfLongDoubles) {
  random_sequence random(3);
  for (int i = 0; i < 100; ++i) {
    exact_sum sum;
    long double expected = 0;
    for (int k = 0; k < 1000; ++k) {
      const double x = std::ldexp(static_cast<double>(random.below(1U << 24)), static_cast<int>(random.below(7)));
      sum.add(x);
      expected += static_cast<long double>(x);
    }
    ASSERT_EQ(sum.value(), static_cast<double>(expected));
  }
}

TEST(ExactSum, RemembersWhatIsNoNumberToAdd) {
  for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), -1.0, -tiniest}) {
    exact_sum sum = sum_of({1, bad, 2});
    EXPECT_TRUE(std::isnan(sum.value())) << bad;
    exact_sum whole = sum_of({4});
    whole.merge(*exact_sum::from(sum.limbs()));
    EXPECT_TRUE(std::isnan(whole.value())) << bad;
  }
}

TEST(ExactSum, LimbsThatNoSumHasAreRefused) {
  const auto good = limbs_of(sum_of({1, 2, 3}));
  EXPECT_TRUE(exact_sum::from(good));
  EXPECT_FALSE(exact_sum::from({}));
  EXPECT_FALSE(exact_sum::from(std::span(good).first(good.size() - 1)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const std::int64_t bad : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
      auto limbs = good;
      limbs[i] = bad;
      EXPECT_FALSE(exact_sum::from(limbs)) << "limb " << i << " " << bad;
    }
  }
}

}  // namespace
}  // namespace troupe::model::exact_sum_test
