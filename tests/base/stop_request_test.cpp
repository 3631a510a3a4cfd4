#include "base/stop_request.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace troupe {
namespace {

TEST(StopRequest, IsHeededByTheThreadThatSaysSoAndWhileItSaysSo) {
  stop_request outer;
  stop_request inner;
  inner.request();
  EXPECT_FALSE(stop_asked());
  {
    const stop_scope heeds(outer);
    EXPECT_FALSE(stop_asked());
    {
      const stop_scope heeds_another(inner);
      EXPECT_TRUE(stop_asked());
    }
    EXPECT_FALSE(stop_asked());
    outer.request();
    EXPECT_TRUE(stop_asked());
    bool elsewhere = true;
    std::thread([&elsewhere] { elsewhere = stop_asked(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(stop_asked());
}

TEST(StopRequest, IsAFaultOfWorkThatEndsEarly) {
  const result<int> ended = stopped("rows.csv");
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, fault_kind::run);
  EXPECT_EQ(ended.error().message, "rows.csv: a stop was requested");
}

}  // namespace
}  // namespace troupe
