// How a process detects its own stops: a gap between two polls that is as long as others wait, and no shorter one.

#include "cluster/nodes/own_stops.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace troupe::nodes::own_stops_test {
namespace {

using namespace std::chrono_literals;

TEST(OwnStops, AreUnknownWhileThisProcessLooks) {
  own_stops stops(1h);
  for (int i = 0; i < 3; ++i) stops.look();
  EXPECT_EQ(stops.lately(), std::nullopt);
}

TEST(OwnStops, AreKnownBeforeTheNextLook) {
  const own_stops stops(10ms);
  std::this_thread::sleep_for(20ms);  // the stop
  const auto stopped = stops.lately();
  ASSERT_TRUE(stopped);
  EXPECT_GE(*stopped, 20ms);
}

}  // namespace
}  // namespace troupe::nodes::own_stops_test
