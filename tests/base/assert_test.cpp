#include "base/assert.hpp"

#include <gtest/gtest.h>

namespace troupe::assert_test {
namespace {

TEST(Assertions, OneThatHoldsDoesNothing) {
  int evaluated = 0;
  TROUPE_ASSERT(++evaluated == 1);
  EXPECT_EQ(evaluated, 1) << "the condition is looked at once, in release builds too";
}

TEST(Assertions, OneThatFailsNamesFileLineAndConditionAndAborts) {
  const int two = 2;
  EXPECT_EXIT(TROUPE_ASSERT(two + two == 5), testing::KilledBySignal(SIGABRT),
              "assert_test.cpp:[0-9]+: assertion failed: two \\+ two == 5");
}

}  // namespace
}  // namespace troupe::assert_test
