#include "base/number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace troupe::number_test {
namespace {

TEST(Number, IsAllOfTheTextOrNone) {
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  for (const char* wrong : {"", " 1", "1 ", "+1", "-1", "1x", "18446744073709551616", "0x1"})
    EXPECT_FALSE(parse_number<std::uint64_t>(wrong)) << wrong;
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_FALSE(parse_number<std::uint8_t>("256"));
}

TEST(Number, MayHaveAnotherBase) {
  EXPECT_EQ(parse_number<std::uint32_t>("00ff10aB", 16), 0xff10abU);
  EXPECT_FALSE(parse_number<std::uint32_t>("0x10", 16));
  EXPECT_FALSE(parse_number<std::uint32_t>("102", 2));
}

TEST(Number, CanBeNanOrInfiniteSoThatLimitsRefuseIt) {
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  EXPECT_TRUE(std::isnan(parse_number<double>("nan").value_or(0)));
  EXPECT_TRUE(std::isinf(parse_number<double>("inf").value_or(0)));
}

}  // namespace
}  // namespace troupe::number_test
