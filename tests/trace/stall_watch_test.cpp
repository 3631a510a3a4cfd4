// Stalls, from what a thread reads from its clocks when it wakes up. Here a tick is a nanosecond.

#include "trace/stall_watch.hpp"

#include <gtest/gtest.h>

namespace troupe::trace::stall_watch_test {
namespace {

constexpr double ticks_per_second = 1e9;
constexpr std::uint64_t ms = 1'000'000;

/// A thread that slept from `last` to `now`, in which all threads of its process computed for `computed_ms`.
std::optional<stall> slept(std::uint64_t last_ms, std::uint64_t now_ms, std::uint64_t computed_ms = 0) {
  constexpr std::uint64_t before = 1'000 * ms;
  return find_stall({last_ms * ms, before}, {now_ms * ms, before + computed_ms * ms}, ticks_per_second);
}

TEST(StallWatch, ThreadThatWakesUpInTimeHasSeenNoStall) {
  EXPECT_EQ(slept(1'000, 1'010), std::nullopt);
  EXPECT_EQ(slept(1'000, 1'000), std::nullopt) << "before its time";
  EXPECT_EQ(slept(1'000, 1'029), std::nullopt) << "19 ms late";
}

TEST(StallWatch, StallIsFromTheMissedWakeUpToTheLateOne) {
  EXPECT_EQ(slept(1'000, 1'030), (stall{1'010 * ms, 1'030 * ms}));
  EXPECT_EQ(slept(1'000, 1'060), (stall{1'010 * ms, 1'060 * ms}));
  EXPECT_EQ(slept(0, 3'600'000), (stall{10 * ms, 3'600'000 * ms}));
}

TEST(StallWatch, ProcessThatComputedMeanwhileDidRun) {
  EXPECT_EQ(slept(1'000, 1'060, 51), std::nullopt) << "a thread kept the only core from the watching one";
  EXPECT_EQ(slept(1'000, 1'060, 26), std::nullopt) << "for more than half of 50 ms";
  EXPECT_EQ(slept(1'000, 1'060, 25), (stall{1'010 * ms, 1'060 * ms}));
  EXPECT_EQ(slept(1'000, 1'060, 10), (stall{1'010 * ms, 1'060 * ms})) << "before it was stopped";
}

TEST(StallWatch, RateOfTheClockCounts) {
  constexpr double rate = 2e9;
  EXPECT_EQ(find_stall({0, 0}, {58 * ms, 0}, rate), std::nullopt) << "29 ms, of which 10 ms of sleep";
  EXPECT_EQ(find_stall({0, 0}, {120 * ms, 26 * ms}, rate), std::nullopt) << "26 of 50 ms";
  EXPECT_EQ(find_stall({0, 0}, {120 * ms, 24 * ms}, rate), (stall{20 * ms, 120 * ms}));
}

}  // namespace
}  // namespace troupe::trace::stall_watch_test
