// Detecting stalls from the clocks that a thread reads when it wakes up. Here a tick is a nanosecond.

#include "trace/record/stall_watch.hpp"

#include <gtest/gtest.h>

namespace troupe::trace::stall_watch_test {
namespace {

constexpr double ticks_per_second = 1e9;
constexpr std::uint64_t ms = 1'000'000;

/// A thread slept from `last` to `now`, while the threads of its process used `computed_ms` of processor time; in the
/// 20 ms before, they used `usual_ms`.
std::optional<stall> slept(std::uint64_t last_ms, std::uint64_t now_ms, std::uint64_t computed_ms = 0,
                           std::uint64_t usual_ms = 0) {
  constexpr std::uint64_t then = 1'000 * ms;
  return find_stall({(last_ms - 20) * ms, then - usual_ms * ms}, {last_ms * ms, then},
                    {now_ms * ms, then + computed_ms * ms}, ticks_per_second);
}

TEST(StallWatch, ThreadThatWakesUpInTimeHasSeenNoStall) {
  EXPECT_EQ(slept(1'000, 1'020), std::nullopt);
  EXPECT_EQ(slept(1'000, 1'000), std::nullopt) << "before its time";
  EXPECT_EQ(slept(1'000, 1'039), std::nullopt) << "19 ms late";
}

TEST(StallWatch, StallIsFromTheMissedWakeUpToTheLateOne) {
  EXPECT_EQ(slept(1'000, 1'040), (stall{1'020 * ms, 1'040 * ms}));
  EXPECT_EQ(slept(1'000, 1'070), (stall{1'020 * ms, 1'070 * ms}));
  EXPECT_EQ(slept(1'000, 3'600'000), (stall{1'020 * ms, 3'600'000 * ms}));
}

TEST(StallWatch, ProcessThatComputedMeanwhileDidRun) {
  EXPECT_EQ(slept(1'000, 1'070, 51), std::nullopt) << "a thread kept the only core from the watching one";
  EXPECT_EQ(slept(1'000, 1'070, 26), std::nullopt) << "for more than half of 50 ms";
  EXPECT_EQ(slept(1'000, 1'070, 25), (stall{1'020 * ms, 1'070 * ms}));
}

TEST(StallWatch, WhatFourThreadsComputedBeforeTheyWereStoppedDoesNotCount) {
  EXPECT_EQ(slept(1'000, 1'070, 80), std::nullopt) << "more than usual";
  EXPECT_EQ(slept(1'000, 1'070, 80, 80), (stall{1'020 * ms, 1'070 * ms}));
  EXPECT_EQ(slept(1'000, 1'070, 106, 80), std::nullopt) << "for more than half of 50 ms besides";
  EXPECT_EQ(slept(1'000, 1'070, 105, 80), (stall{1'020 * ms, 1'070 * ms}));
  // A thread uses the only core twice, for 50 ms each: its usual rate is 50 ms in 70, so 14 in 20.
  EXPECT_EQ(find_stall({930 * ms, 0}, {1'000 * ms, 50 * ms}, {1'070 * ms, 100 * ms}, ticks_per_second), std::nullopt);
  // The first poll has no earlier one to compare with.
  EXPECT_EQ(find_stall({1'000 * ms, 7}, {1'000 * ms, 7}, {1'070 * ms, 7}, ticks_per_second),
            (stall{1'020 * ms, 1'070 * ms}));
}

TEST(StallWatch, RateOfTheClockCounts) {
  constexpr double rate = 2e9;
  EXPECT_EQ(find_stall({0, 0}, {0, 0}, {78 * ms, 0}, rate), std::nullopt) << "39 ms, of which 20 ms of sleep";
  EXPECT_EQ(find_stall({0, 0}, {0, 0}, {140 * ms, 26 * ms}, rate), std::nullopt) << "26 of 50 ms";
  EXPECT_EQ(find_stall({0, 0}, {0, 0}, {140 * ms, 24 * ms}, rate), (stall{40 * ms, 140 * ms}));
}

}  // namespace
}  // namespace troupe::trace::stall_watch_test
