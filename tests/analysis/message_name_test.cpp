#include "trace/analysis/training_order.hpp"

#include <gtest/gtest.h>

namespace troupe::analysis::message_name_test {
namespace {

TEST(MessageName, IsThatOfTheTypeWithoutItsNamespace) {
  EXPECT_TRUE((is_any_of<msg::lookup, msg::rows>("rows")));
  EXPECT_FALSE((is_any_of<msg::lookup, msg::rows>("row")));
  EXPECT_FALSE((is_any_of<msg::lookup, msg::rows>("")));
}

TEST(MessageName, HasTheNumberThatTheRecordingGaveIt) {
  trace::recording run;
  run.types = {{200, "rows"}, {201, "lookup"}};
  EXPECT_EQ(type_number<msg::lookup>(run), 201);
  EXPECT_EQ(type_number<msg::gradient>(run), std::nullopt);
}

}  // namespace
}  // namespace troupe::analysis::message_name_test
