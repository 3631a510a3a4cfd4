#include "base/number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace troupe::number_test {
namespace {

TEST(Number, IsAllOfTheTextOrNone) {
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  for (const char* wrong : {"", " 1", "1 ", "-1", "1x", "18446744073709551616", "0x1"})
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

TEST(Number, MayHaveAPlusSign) {
  EXPECT_EQ(parse_number<double>("+1.5"), 1.5);
  EXPECT_EQ(parse_number<double>("+1e+3"), 1000);
  EXPECT_EQ(parse_number<std::uint64_t>("+7"), 7U);
  EXPECT_EQ(parse_number<int>("+7"), 7);
  for (const char* wrong : {"+", "++1", "+-1", "-+1", "+ 1", " +1", "1+"}) {
    EXPECT_FALSE(parse_number<double>(wrong)) << wrong;
    EXPECT_FALSE(parse_number<int>(wrong)) << wrong;
  }
}

TEST(Number, ThatNoDoubleHoldsIsRounded) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string zeros(400, '0');
  const std::string tiny_ones[] = {"1e-400",
                                   "+1e-400",
                                   "0." + zeros + "1",
                                   "2e-324",
                                   "100000000000e-340",
                                   "1" + zeros + "e-800",
                                   "9.9E-9999",
                                   "1e-99999999999999999999"};
  for (const std::string& tiny : tiny_ones) {
    EXPECT_EQ(parse_number<double>(tiny), 0) << tiny;
    EXPECT_FALSE(std::signbit(parse_number<double>(tiny).value_or(-1))) << tiny;
  }
  EXPECT_TRUE(std::signbit(parse_number<double>("-1e-400").value_or(1)));
  for (const std::string& huge : {std::string("1e400"), "1" + zeros, std::string("0.0001e313"), "0." + zeros + "1e800",
                                  std::string("1e99999999999999999999")})
    EXPECT_EQ(parse_number<double>(huge), infinity) << huge;
  EXPECT_EQ(parse_number<double>("-1e400"), -infinity);
  EXPECT_EQ(parse_number<double>("5e-324"), 5e-324);
  EXPECT_EQ(parse_number<double>("3e-310"), 3e-310);
  EXPECT_EQ(parse_number<double>("0e99999999999999999999"), 0);
  for (const char* wrong : {"1e-400x", "1e400 ", "1e"}) EXPECT_FALSE(parse_number<double>(wrong)) << wrong;
}

}  // namespace
}  // namespace troupe::number_test
