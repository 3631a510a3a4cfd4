#include "page/steps.hpp"

#include <gtest/gtest.h>

namespace troupe::page::steps_test {
namespace {

/// Steps that take 1, 2, ... `count` ns.
analysis::step_windows steps_of(int count) {
  analysis::step_windows all;
  for (int i = 1; i <= count; ++i) all.whole.push_back({static_cast<std::uint64_t>(i), 0, i, {}});
  return all;
}

TEST(Steps, HaveTheirPercentilesByTheNearestRank) {
  const auto summary = steps_json({}, steps_of(30), 5);
  EXPECT_EQ(summary.at("p50_ns"), 15);
  EXPECT_EQ(summary.at("p95_ns"), 29);  // 28 of 30 are 93 %
  EXPECT_EQ(slow_step(steps_of(30)), 29);
  EXPECT_EQ(slow_step(steps_of(10)), 10);
  EXPECT_EQ(slow_step(steps_of(0)), 0);
}

}  // namespace
}  // namespace troupe::page::steps_test
