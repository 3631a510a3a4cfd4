#include "tests/trace/made_recording.hpp"

#include <gtest/gtest.h>

namespace troupe::trace::made_recording_test {
namespace {

TEST(MadeRecording, NumbersMessagesBySenderAndSortsByBegin) {
  made_recording made(2, 1);
  EXPECT_EQ(made.trainer(0), 4);
  const auto later = made.handled("lookup", made.trainer(0), made.server(1), us(5, 0, 9, 10));
  const auto earlier = made.handled("lookup", made.trainer(0), made.server(0), us(6, 0, 7, 8));
  EXPECT_EQ(later, made_id(4, 1));
  EXPECT_EQ(earlier, made_id(4, 2));
  const recording& run = made.done();
  ASSERT_EQ(run.events.size(), 2U);
  EXPECT_EQ(run.events[0].id, earlier);
  EXPECT_EQ(run.message_name(later), "trainer 0 #1");
  EXPECT_EQ(run.type_name(run.events[0].type), "lookup");
  EXPECT_EQ(run.end(), us(10));
}

}  // namespace
}  // namespace troupe::trace::made_recording_test
