#include "trace/analysis/steps.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace troupe::analysis::percentile_test {
namespace {

/// Returns `count` down to 1.
std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.rbegin(), all.rend(), 1);
  return all;
}

int of_numbers(int count, std::size_t percent) {
  std::vector<int> all = numbers(count);
  return percentile(all, percent);
}

TEST(Percentile, IsTheSmallestValueThatSoManyDoNotExceed) {
  EXPECT_EQ(of_numbers(1, 95), 1);
  EXPECT_EQ(of_numbers(2, 50), 1);
  EXPECT_EQ(of_numbers(3, 50), 2);
  EXPECT_EQ(of_numbers(4, 50), 2);
  EXPECT_EQ(of_numbers(10, 95), 10);  // 9 of 10 are 90 %
  EXPECT_EQ(of_numbers(19, 95), 19);
  EXPECT_EQ(of_numbers(20, 95), 19);
  EXPECT_EQ(of_numbers(21, 95), 20);
  EXPECT_EQ(of_numbers(30, 95), 29);  // 28 of 30 are 93 %
  EXPECT_EQ(of_numbers(100, 95), 95);
  EXPECT_EQ(of_numbers(100, 100), 100);
}

TEST(Percentile, OfNothingIsZero) { EXPECT_EQ(of_numbers(0, 95), 0); }

TEST(Percentile, CountsZerosThatAreLeftOut) {
  for (const std::size_t percent : {1U, 50U, 90U, 91U, 95U, 100U}) {
    std::vector<int> with = numbers(10);
    with.insert(with.end(), 90, 0);
    std::vector<int> without = numbers(10);
    EXPECT_EQ(percentile(without, percent, 90), percentile(with, percent)) << percent;
  }
}

}  // namespace
}  // namespace troupe::analysis::percentile_test
