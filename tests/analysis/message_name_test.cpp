#include "analysis/message_name.hpp"

#include <gtest/gtest.h>

namespace troupe::analysis::message_name_test {
namespace {

TEST(MessageName, IsThatOfTheTypeWithoutItsNamespace) {
  EXPECT_TRUE((is_any_of<lookup, rows>("rows")));
  EXPECT_FALSE((is_any_of<lookup, rows>("row")));
  EXPECT_FALSE((is_any_of<lookup, rows>("")));
}

TEST(MessageName, HasTheNumberThatTheRecordingGaveIt) {
  recording run;
  run.types = {{200, "rows"}, {201, "lookup"}};
  EXPECT_EQ(type_number<lookup>(run), 201);
  EXPECT_EQ(type_number<gradient>(run), std::nullopt);
}

}  // namespace
}  // namespace troupe::analysis::message_name_test
