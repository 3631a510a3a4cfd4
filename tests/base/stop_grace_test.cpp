#include "base/stop_grace.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace troupe::stop_grace_test {
namespace {

TEST(UncountedTime, LastsAsLongAsOneIsLeft) {
  EXPECT_TRUE(time_counts());
  {
    std::optional<uncounted_time> first(std::in_place);
    const uncounted_time second;
    EXPECT_FALSE(time_counts());
    first.reset();
    EXPECT_FALSE(time_counts());
  }
  EXPECT_TRUE(time_counts());
}

std::vector<std::string> open_now() {
  std::vector<std::string> names;
  for (const open_code& one : code_under_way::all()) names.push_back(one.who);
  return names;
}

TEST(CodeUnderWay, IsToldInItsOrderWhileItLasts) {
  const auto named = [](const std::string& who) { return [who] { return open_code{.who = who}; }; };
  const code_under_way outer(named("outer"));
  EXPECT_EQ(open_now(), (std::vector<std::string>{"outer"}));
  {
    const code_under_way gone(named("inner"));
    EXPECT_EQ(open_now(), (std::vector<std::string>{"outer", "inner"}));
  }
  const code_under_way next(named("next"));
  EXPECT_EQ(open_now(), (std::vector<std::string>{"outer", "next"}));
}

TEST(CodeUnderWay, IsLeftOutWhileItIsAtNothingAndKeepsItsNumber) {
  std::optional<open_code> now;
  const code_under_way changing([&now] { return now; });
  EXPECT_TRUE(code_under_way::all().empty());
  now = open_code{.who = "server 0", .turn = 1};
  const auto first = code_under_way::all();
  now->turn = 3;
  const auto second = code_under_way::all();
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].id, second[0].id);
  EXPECT_NE(first[0].turn, second[0].turn);
}

}  // namespace
}  // namespace troupe::stop_grace_test
