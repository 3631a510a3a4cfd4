// Lines about strangers: a few are told, the rest is counted, and the count is told.

#include "cluster/turned_away.hpp"

#include <gtest/gtest.h>

namespace troupe::turned_away_test {
namespace {

constexpr turned_away::clock::time_point begin{std::chrono::hours(1)};

TEST(turned_away_test, the_first_few_are_told_as_they_are) {
  turned_away log;
  for (std::uint32_t i = 0; i < turned_away::told_each; ++i) EXPECT_EQ(log.add("a stranger", begin), "a stranger");
  EXPECT_FALSE(log.due());
  EXPECT_FALSE(log.summary());
}

TEST(turned_away_test, the_others_are_counted_and_the_count_is_told) {
  turned_away log;
  for (std::uint32_t i = 0; i < turned_away::told_each; ++i) log.add("a stranger", begin);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(log.add("stranger " + std::to_string(i), begin));
  EXPECT_EQ(log.due(), begin + turned_away::interval);
  EXPECT_EQ(log.summary(), "1000 more within 60 s, the last: stranger 999");
  EXPECT_FALSE(log.due());
  EXPECT_FALSE(log.summary()) << "once";
}

TEST(turned_away_test, a_new_interval_begins_anew) {
  turned_away log;
  const auto later = begin + turned_away::interval;
  for (std::uint32_t i = 0; i < turned_away::told_each; ++i) log.add("a stranger", begin);
  EXPECT_EQ(log.add("a later one", later), "a later one");
  for (std::uint32_t i = 1; i < turned_away::told_each; ++i) log.add("a stranger", later);
  EXPECT_FALSE(log.add("one too many", later));
  EXPECT_EQ(log.due(), later + turned_away::interval);
}

TEST(turned_away_test, nobody_is_told_of_before_those_who_were_only_counted) {
  turned_away log;
  for (std::uint32_t i = 0; i <= turned_away::told_each; ++i) log.add("a stranger", begin);
  EXPECT_FALSE(log.add("one whose interval has not been summed up", begin + turned_away::interval));
  EXPECT_EQ(log.summary(), "2 more within 60 s, the last: one whose interval has not been summed up");
  EXPECT_EQ(log.add("the next", begin + turned_away::interval), "the next");
}

}  // namespace
}  // namespace troupe::turned_away_test
