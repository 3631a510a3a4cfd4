#include "model/zipf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace troupe::model::zipf_test {
namespace {

// Compares each row's share of many draws with 1 / k^s over its sum.
TEST(Zipf, FrequenciesFollowTheClosedForm) {
  constexpr std::size_t rows = 50;
  constexpr int draws = 1'000'000;
  for (const double exponent : {0.3, 0.99, 1.0, 1.0000001, 1.1, 2.0, 5.0}) {
    const zipf_distribution zipf(rows, exponent);
    random_sequence random(17);
    std::vector<int> count(rows);
    for (int i = 0; i < draws; ++i) ++count.at(zipf.draw(random));
    double total = 0;
    for (std::size_t k = 1; k <= rows; ++k) total += std::pow(k, -exponent);
    for (std::size_t k = 1; k <= rows; ++k) {
      const double p = std::pow(k, -exponent) / total;
      const double deviation = std::sqrt(draws * p * (1 - p));
      EXPECT_NEAR(count[k - 1], draws * p, 5 * deviation + 1) << "exponent " << exponent << " row " << k - 1;
    }
  }
}

// The probability of the first 10 of 10^9 rows with exponent 1: H(10) / H(10^9), H(n) = ln n + 0.5772 + 1/(2n).
TEST(Zipf, LargeRangesNeedNoMemory) {
  const zipf_distribution zipf(1'000'000'000, 1);
  random_sequence random(3);
  int head = 0;
  std::uint64_t largest = 0;
  constexpr int draws = 200'000;
  for (int i = 0; i < draws; ++i) {
    const std::uint64_t row = zipf.draw(random);
    head += row < 10 ? 1 : 0;
    largest = std::max(largest, row);
  }
  EXPECT_NEAR(head / static_cast<double>(draws), 2.9289683 / 21.3004815, 0.004);
  EXPECT_LT(largest, 1'000'000'000U);
  EXPECT_GT(largest, 900'000'000U);
}

TEST(Zipf, ASingleRowIsAlwaysDrawn) {
  for (const double exponent : {0.5, 1.0, 10.0}) {
    const zipf_distribution zipf(1, exponent);
    random_sequence random(1);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(zipf.draw(random), 0U);
  }
}

}  // namespace
}  // namespace troupe::model::zipf_test
