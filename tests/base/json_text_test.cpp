#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe::json_text_test {
namespace {

TEST(JsonText, EscapesWhatJsonMustNotHave) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(json_string("\xc3\xa9 \xff"), "\"\xc3\xa9 \\\\xff\"");
}

TEST(JsonText, NumbersKeepTheirBitsAndTheirSpelling) {
  EXPECT_EQ(json_number(0.9041), "0.9041");
  EXPECT_EQ(json_number(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonText, ALineIsOneObject) {
  json_line line("done");
  line.add("steps", std::uint64_t{7}).add("loss", 0.5).add("auc", std::optional<double>()).add("name", "a b");
  line.add("ok", true).add_json("list", "[1,2]");
  EXPECT_EQ(line.take(),
            "{\"event\":\"done\",\"steps\":7,\"loss\":0.5,\"auc\":null,\"name\":\"a b\",\"ok\":true,\"list\":[1,2]}\n");
}

}  // namespace
}  // namespace troupe::json_text_test
