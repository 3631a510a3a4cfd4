// Goal: every text of the system survives JSON, whatever its bytes are, and Troupe writes valid JSON.

#include "base/lossless_json.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdint>
#include <string>

#include "base/text.hpp"

namespace troupe::lossless_json_test {
namespace {

namespace json = boost::json;

/// Expects that a strict reader accepts `text` as JSON.
void expect_json(const std::string& text) {
  EXPECT_EQ(find_non_utf8(text), std::string::npos) << text;
  boost::system::error_code failed;
  json::parse(text, failed);
  EXPECT_FALSE(failed) << failed.message() << ": " << text;
}

void expect_same_again(const json::value& what) {
  const std::string text = lossless_json(what);
  expect_json(text);
  const auto again = parse_lossless_json(text);
  ASSERT_TRUE(again.has_value()) << again.error().message << ": " << text;
  EXPECT_EQ(*again, what) << text;
}

TEST(LosslessJson, GivesBackEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text : {all, all + all, std::string("d\xff.csv"), std::string("caf\xc3"), std::string()})
    expect_same_again(json::object{{"path", text}, {text + "key", json::array{text, 1, nullptr, json::array{text}}}});
}

TEST(LosslessJson, TellsEscapesFromTextThatLooksLikeThem) {
  for (const std::string text : {R"(\xff)", R"(\\xff)", R"(\x5c)", R"(\x5cxff)", R"(\x)", R"(\xg0)", R"(x\)", R"(\\)",
                                 "\\\xff", "\\x\xff", "\\\\\xffx", "\xff\\x", R"(C:\x86)"})
    expect_same_again(json::value(text));
}

/// Mixes the bytes that matter in random order.
TEST(LosslessJson, GivesBackAnyMixture) {
  constexpr std::string_view bytes = "\\x5cf0\"\xff\xc3\xa9\xf0\x9f\n";
  std::uint64_t random = 1;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (int length = i % 9; length > 0; --length) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      text += bytes[(random >> 33) % bytes.size()];
    }
    expect_same_again(json::object{{text, text}});
    if (HasFailure()) return;
  }
}

TEST(LosslessJson, LeavesOrdinaryTextAsItIs) {
  const json::object what{{"name", "caf\xc3\xa9 \"a\\b\"\n"}, {"number", 0.5}};
  EXPECT_EQ(lossless_json(what), json::serialize(what));
  EXPECT_EQ(json_text(what), json::serialize(what));
}

TEST(LosslessJson, IsRefusedAsAValueIfItIsNoJson) {
  for (const std::string text : {"", "{", "\"\xff\"", "{} x", "[1,]"})
    EXPECT_FALSE(parse_lossless_json(text).has_value()) << text;
  EXPECT_FALSE(parse_lossless_json(std::string(100'000, '[')).has_value());
}

TEST(JsonText, OfAnyBytesIsForAllReaders) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  expect_json(json_text(json::object{{all, all}}));
  EXPECT_EQ(json_text(json::value("d\xff\\x")), R"("d\\xff\\x")");
}

}  // namespace
}  // namespace troupe::lossless_json_test
