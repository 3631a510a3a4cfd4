#include "base/units.hpp"

#include <gtest/gtest.h>

namespace troupe::units_test {
namespace {

TEST(Units, SuitTheSizeOfATime) {
  EXPECT_EQ(time_text(950), "950 ns");
  EXPECT_EQ(time_text(12'340), "12.3 us");
  EXPECT_EQ(time_text(999'960), "1.0 ms");
  EXPECT_EQ(time_text(41'700'000), "41.7 ms");
  EXPECT_EQ(time_text(3'210'000'000), "3.21 s");
  EXPECT_EQ(time_text(-12'340), "-12.3 us");
}

TEST(Units, SuitTheSizeOfMemory) {
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(35 << 20), "35.0 MiB");
}

TEST(Units, GroupDigits) {
  EXPECT_EQ(count_text(7), "7");
  EXPECT_EQ(count_text(123), "123");
  EXPECT_EQ(count_text(1'234'567), "1,234,567");
}

TEST(Units, ShowNoShareOfNothing) {
  EXPECT_EQ(share_text(1, 8), "12.5 %");
  EXPECT_EQ(share_text(1, 0), "-");
}

}  // namespace
}  // namespace troupe::units_test
