// The losses in a trainer's progress reports.

#include "actors/trainer/progress_losses.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace troupe::actors::progress_losses_test {
namespace {

using namespace std::chrono_literals;
constexpr progress_losses::clock::time_point begin{std::chrono::seconds(5)};

TEST(ProgressLosses, AreThoseSinceTheLastReport) {
  progress_losses losses(100ms);
  losses.start(begin);
  EXPECT_TRUE(losses.empty());
  losses.add(1.5, 3);
  losses.add(0.5, 1);
  EXPECT_FALSE(losses.empty());
  const auto first = losses.report(begin + 250ms);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->loss_sum, 2.0);
  EXPECT_EQ(first->loss_samples, 4U);
  EXPECT_EQ(first->seconds, 0.25);
  EXPECT_TRUE(losses.empty());
}

TEST(ProgressLosses, AreKeptUntilAReportIsDue) {
  progress_losses losses(100ms);
  losses.start(begin);
  ASSERT_TRUE(losses.report(begin));
  losses.add(1, 1);
  EXPECT_FALSE(losses.report(begin + 99ms));
  losses.add(2, 1);
  const auto next = losses.report(begin + 100ms);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->loss_sum, 3.0);
  EXPECT_EQ(next->loss_samples, 2U);
}

TEST(ProgressLosses, AReportWithoutAnyStillTellsTheStep) {
  progress_losses losses(100ms);
  losses.start(begin);
  const auto none = losses.report(begin + 1s);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->loss_samples, 0U);
  EXPECT_EQ(none->seconds, 1.0);
}

}  // namespace
}  // namespace troupe::actors::progress_losses_test
