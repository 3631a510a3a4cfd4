#include "model/files/line_reader.hpp"

#include <gtest/gtest.h>

#include "model/input_file.hpp"
#include "model/random.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::line_reader_test {
namespace {

line_reader reader_of(const temporary_file& file, std::uint64_t offset = 0, std::uint64_t lines_before = 0) {
  return {open_source(*open_data_file(file.path()), compression::none, offset), "file", offset, lines_before};
}

std::vector<std::string> lines_of(const std::string& text) {
  const temporary_file file(text);
  auto reader = reader_of(file);
  std::vector<std::string> lines;
  for (auto line = reader.next().value(); line; line = reader.next().value()) lines.emplace_back(*line);
  return lines;
}

using lines = std::vector<std::string>;

TEST(LineReader, LinesEndWithLfOrCrLfOrTheFile) {
  EXPECT_EQ(lines_of("a\nb\n"), (lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb"), (lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r\n"), (lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r"), (lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\rb\n"), (lines{"a\rb"}));
}

TEST(LineReader, BlankLinesArePassedOverAndCounted) {
  const std::string text = "\n \t\r\na\n\r\n\nb\n  \n\n";
  const temporary_file file(text);
  auto reader = reader_of(file);
  EXPECT_EQ(reader.next().value(), "a");
  EXPECT_EQ(reader.line(), 3U);
  EXPECT_EQ(reader.offset(), text.find('a') + 2);
  EXPECT_EQ(reader.next().value(), "b");
  EXPECT_EQ(reader.line(), 6U);
  EXPECT_FALSE(reader.next().value().has_value());
  EXPECT_EQ(reader.returned(), 2U);
  EXPECT_EQ(reader.blank_lines(), 6U);
  EXPECT_EQ(reader.first_blank_line(), 1U);
  EXPECT_EQ(lines_of("\n\n"), lines());
  EXPECT_EQ(lines_of("\xef\xbb\xbf\n\na\n \v\n\xa0\n"), (lines{"a", " \v", "\xa0"}));
  // Blank lines at every offset in the reader's buffer.
  std::string many;
  for (int i = 0; i < 200'000; ++i) many += i % 2 == 0 ? "x\r\n" : "\r\n";
  EXPECT_EQ(lines_of(many), lines(100'000, "x"));
}

TEST(LineReader, AByteOrderMarkIsLeftOutOfTheFirstLineOnly) {
  EXPECT_EQ(lines_of("\xef\xbb\xbfname\n\xef\xbb\xbfx\n"), (lines{"name", "\xef\xbb\xbfx"}));
}

TEST(LineReader, LinesOfAnyLengthAndTheirPlacesAreFound) {
  std::string text;
  lines expected;
  std::vector<std::uint64_t> offsets;
  random_sequence random(3);
  while (text.size() < 3'000'000) {
    const auto length = 1 + random.below(random.below(50) == 0 ? 300'000 : 400);
    std::string line;
    for (std::uint64_t i = 0; i < length; ++i) line += static_cast<char>('a' + random.below(26));
    offsets.push_back(text.size());
    text += line + "\n";
    expected.push_back(line);
  }
  const temporary_file file(text);
  auto reader = reader_of(file);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(reader.offset(), offsets[i]);
    const auto line = reader.next().value();
    ASSERT_TRUE(line == expected[i]) << i;
    EXPECT_EQ(reader.line(), i + 1);
  }
  EXPECT_FALSE(reader.next().value().has_value());
  auto later = reader_of(file, offsets[100], 100);
  EXPECT_TRUE(later.next().value() == expected[100]);
  EXPECT_EQ(later.line(), 101U);
  EXPECT_EQ(later.offset(), offsets[101]);
}

TEST(LineReader, TooLongALineIsRefused) {
  const std::string longest(line_reader::line_max, 'x');
  EXPECT_EQ(lines_of("a\n" + longest + "\nb\n"), (lines{"a", longest, "b"}));
  EXPECT_EQ(lines_of("a\n" + longest), (lines{"a", longest}));
  for (const char* end : {"x\nb\n", "x", "xxxxxxxxxxx"}) {
    const temporary_file file("a\n" + longest + end);
    auto reader = reader_of(file);
    EXPECT_EQ(reader.next().value(), "a");
    EXPECT_EQ(refusal(reader.next()), "file line 2: more than 1048576 bytes: must be at most as many");
  }
  const temporary_file endless(std::string(5'000'000, 'x'));
  EXPECT_EQ(refusal(reader_of(endless).next()), "file line 1: more than 1048576 bytes: must be at most as many");
}

TEST(LineReader, TextOfUtf16IsToldAsThat) {
  for (const std::string& text : {std::string("\xff\xfe"
                                              "a\0\n\0",
                                              6),
                                  std::string("\xfe\xff\0a\0\n", 6)}) {
    const temporary_file file(text);
    EXPECT_EQ(refusal(reader_of(file).next()),
              "file: is UTF-16: must be UTF-8; write it anew, such as by iconv -f UTF-16 -t UTF-8");
  }
}

TEST(LineReader, AZeroByteIsRefusedWithItsLine) {
  const std::string what = ": a zero byte: must be text, plain or compressed by gzip or zstd";
  const temporary_file first(std::string("a\0b\n", 4));
  EXPECT_EQ(refusal(reader_of(first).next()), "file line 1" + what);
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "abcdef\n";
  text[7 * 150'000 + 3] = '\0';
  const temporary_file later(text);
  auto reader = reader_of(later);
  auto line = reader.next();
  while (line) line = reader.next();
  EXPECT_EQ(refusal(line), "file line 150001" + what);
}

}  // namespace
}  // namespace troupe::model::line_reader_test
