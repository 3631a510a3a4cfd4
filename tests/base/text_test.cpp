// Goal: no foreign text controls a terminal or reorders its letters, and all other text stays as it is.

#include "base/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace troupe::text_test {
namespace {

/// Returns the UTF-8 bytes of a character.
std::string utf8(std::uint32_t c) {
  const auto last = [&](unsigned shift) { return static_cast<char>(0x80U | (c >> shift & 0x3fU)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0U | c >> 6), last(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0U | c >> 12), last(6), last(0)};
  return {static_cast<char>(0xf0U | c >> 18), last(12), last(6), last(0)};
}

TEST(Harmless, EscapesControlsSeparatorsAndMarksOfDirectionAndNothingElse) {
  const std::string marks = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069";
  std::size_t escaped = 0;
  for (std::uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;  // surrogates are not characters
    const std::string character = utf8(c);
    const bool is_control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
    if (is_control || (c > 0x7f && marks.find(character) != std::string::npos)) {
      ++escaped;
      for (const char one : harmless(character)) ASSERT_TRUE(one >= ' ' && one <= '~') << "character " << c;
    } else {
      ASSERT_EQ(harmless(character), character) << "character " << c;
    }
  }
  EXPECT_EQ(escaped, 32U + 33 + 14);
}

TEST(Harmless, ShowsWhichCharacterItWas) {
  EXPECT_EQ(harmless("a\x1b[2J\x7f\n"), "a\\x1b[2J\\x7f\\x0a");
  EXPECT_EQ(harmless("a\u009b2J\u0085"), "a\\u009b2J\\u0085");
  EXPECT_EQ(harmless("gnp.\u202eexe \u2066x\u2069"), "gnp.\\u202eexe \\u2066x\\u2069");
  EXPECT_EQ(harmless("Zürich, 東京, \U0001f600"), "Zürich, 東京, \U0001f600");
}

TEST(Harmless, EscapesEachByteThatIsNotUtf8) {
  EXPECT_EQ(harmless("caf\xe9 x"), "caf\\xe9 x");
  EXPECT_EQ(harmless("\x9b"), "\\x9b");                    // a C1 control in Latin-1
  EXPECT_EQ(harmless("\xc0\x9b"), "\\xc0\\x9b");           // an escape character in two bytes
  EXPECT_EQ(harmless("\xe2\x80"), "\\xe2\\x80");           // ends too early
  EXPECT_EQ(harmless("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(harmless("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Harmless, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(harmless("abc", 3), "abc");
  EXPECT_EQ(harmless("abcd", 3), "abc...");
  EXPECT_EQ(harmless("abü", 3), "ab...");
  EXPECT_EQ(harmless("abü", 4), "abü");
  EXPECT_EQ(harmless(std::string(1000, 'x'), 0), "...");
}

TEST(OneLine, HasABlankForEachLineEndAndTab) {
  EXPECT_EQ(one_line("a\r\nb\tc\x1b[m\u2028d"), "a  b c\\x1b[m\\u2028d");
  EXPECT_EQ(one_line("GET / HTTP/1.1\r\n", 6), "GET / ...");
}

TEST(Utf8, LengthIsThatOfOneCharacter) {
  EXPECT_EQ(utf8_length("a"), 1U);
  EXPECT_EQ(utf8_length("ü!"), 2U);
  EXPECT_EQ(utf8_length("東!"), 3U);
  EXPECT_EQ(utf8_length("\U0001f600!"), 4U);
  EXPECT_EQ(utf8_length("\xfc"), 0U);
  EXPECT_EQ(find_non_utf8("a\xfc"), 1U);
  EXPECT_EQ(find_non_utf8("aü"), std::string_view::npos);
}

}  // namespace
}  // namespace troupe::text_test
