// Log lines about rejected connections: a few are logged, the rest are counted, and the count is logged.

#include "cluster/nodes/rejection_log.hpp"

#include <gtest/gtest.h>

namespace troupe::nodes::rejection_log_test {
namespace {

constexpr rejection_log::clock::time_point begin{std::chrono::hours(1)};

TEST(RejectionLog, TheFirstFewAreToldAsTheyAre) {
  rejection_log log;
  for (std::uint32_t i = 0; i < rejection_log::reported_each; ++i)
    EXPECT_EQ(log.add("a stranger", begin), "a stranger");
  EXPECT_FALSE(log.due());
  EXPECT_FALSE(log.summary());
}

TEST(RejectionLog, TheOthersAreCountedAndTheCountIsTold) {
  rejection_log log;
  for (std::uint32_t i = 0; i < rejection_log::reported_each; ++i) log.add("a stranger", begin);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(log.add("stranger " + std::to_string(i), begin));
  EXPECT_EQ(log.due(), begin + rejection_log::interval);
  EXPECT_EQ(log.summary(), "1000 more within 60 s, the last: stranger 999");
  EXPECT_FALSE(log.due());
  EXPECT_FALSE(log.summary()) << "once";
}

TEST(RejectionLog, ANewIntervalBeginsAnew) {
  rejection_log log;
  const auto later = begin + rejection_log::interval;
  for (std::uint32_t i = 0; i < rejection_log::reported_each; ++i) log.add("a stranger", begin);
  EXPECT_EQ(log.add("a later one", later), "a later one");
  for (std::uint32_t i = 1; i < rejection_log::reported_each; ++i) log.add("a stranger", later);
  EXPECT_FALSE(log.add("one too many", later));
  EXPECT_EQ(log.due(), later + rejection_log::interval);
}

TEST(RejectionLog, NobodyIsToldOfBeforeThoseWhoWereOnlyCounted) {
  rejection_log log;
  for (std::uint32_t i = 0; i <= rejection_log::reported_each; ++i) log.add("a stranger", begin);
  EXPECT_FALSE(log.add("one whose interval has not been summed up", begin + rejection_log::interval));
  EXPECT_EQ(log.summary(), "2 more within 60 s, the last: one whose interval has not been summed up");
  EXPECT_EQ(log.add("the next", begin + rejection_log::interval), "the next");
}

}  // namespace
}  // namespace troupe::nodes::rejection_log_test
