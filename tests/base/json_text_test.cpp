#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
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

std::string refusal(std::string_view text) {
  const auto parsed = parse_json(text);
  return parsed ? "" : parsed.error().message;
}

TEST(ParseJson, ReadsWhatUsersWrite) {
  EXPECT_EQ(parse_json(R"( [{"a": [1, -2.5, null]}, {"a": "b"}] )").value(),
            boost::json::parse(R"([{"a":[1,-2.5,null]},{"a":"b"}])"));
  EXPECT_EQ(parse_json("\xef\xbb\xbf{}").value(), boost::json::parse("{}"));
}

TEST(ParseJson, AKeyThatIsGivenTwiceIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(R"({"a": 1, "b": 2, "a": 1})"), "key a is given twice, at byte 19");
  EXPECT_EQ(refusal(R"([7, {"kind": 1, "kind": 1}])"), "key kind of [1] is given twice, at byte 21");
  EXPECT_EQ(refusal(R"([true, "x", [], {"layers": [{}, {"a": {}, "\u0061": 0}]}])"),
            "key a of [3].layers[1] is given twice, at byte 49");
  EXPECT_EQ(refusal(R"({"x": {"y": {"": 1, "": 2}}})"), "key '' of x.y is given twice, at byte 21");
  EXPECT_EQ(refusal(R"({"a\nb": 1, "a\nb": 1})"), "key a\\x0ab is given twice, at byte 17");
  // A long key arrives in parts.
  const std::string key(100'000, 'k');
  EXPECT_NE(refusal("{\"" + key + "\": 1, \"" + key + "\": 2}").find("is given twice"), std::string::npos);
  EXPECT_EQ(refusal("{\"" + key + "1\": 1, \"" + key + "2\": 2}"), "");
  EXPECT_EQ(refusal(R"([{"a": 1}, {"a": 1, "b": {"a": 1}}])"), "");
}

TEST(ParseJson, WhatIsNoJsonIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("[1, ]"), "syntax error at byte 4");
  EXPECT_EQ(refusal("[1] 2"), "extra data at byte 4");
  EXPECT_EQ(refusal("\xef\xbb\xbf[1] 2"), "extra data at byte 7");
  for (const char* wrong : {"", " ", "{", "[1", "{\"a\"}", "{a: 1}", "[\"\xff\"]", "// 1\n1", "nul"})
    EXPECT_NE(refusal(wrong).find(" at byte "), std::string::npos) << wrong;
  EXPECT_NE(refusal(std::string(100, '[') + std::string(100, ']')).find("too deep"), std::string::npos);
}

}  // namespace
}  // namespace troupe::json_text_test
