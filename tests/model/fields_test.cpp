#include "model/files/line_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/files/category_hash.hpp"
#include "model/files/csv_fields.hpp"
#include "model/random.hpp"

namespace troupe::model::fields_test {
namespace {

TEST(Fields, AFieldEndsWhereAPlainSearchFindsIt) {
  random_sequence random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(40, '\0');
    // Bytes that differ from the separator by one bit or by the borrow of a neighbour.
    for (char& c : text) c = "\t\x08\x0a\x89\x01x"[random.below(6)];
    const char* from = text.data() + random.below(16);
    const char* to = from + random.below(17);
    ASSERT_EQ(field_end(from, to, '\t'), std::find(from, to, '\t')) << round;
  }
}

TEST(Fields, SeparatorsAreCountedAsAPlainSearchCountsThem) {
  random_sequence random(4);
  for (const std::size_t length : {0, 1, 15, 16, 17, 240, 2031, 2032, 2033, 5000}) {
    for (int round = 0; round < 20; ++round) {
      std::string text(length + 1, '\t');
      if (round > 0)
        for (char& c : text) c = "\t\x08\x0a\x89\x01\xf7\t\t"[random.below(8)];
      const std::string_view part(text.data() + round % 2, length);
      ASSERT_EQ(count_of(part, '\t'), static_cast<std::size_t>(std::ranges::count(part, '\t'))) << length;
    }
  }
}

// Hashes from xxHash's own shared library, remainders from Python.
TEST(CategoryHash, IsOnePlusXxh3ModuloTheRowsLessOne) {
  EXPECT_EQ(category_hash(100000).row_of("68fd1e64"), 99448U);
  EXPECT_EQ(category_hash(1000).row_of("80e26c9b"), 335U);
  EXPECT_EQ(category_hash(2).row_of("a"), 1U);
  EXPECT_EQ(category_hash(3).row_of("a"), 2U);
  EXPECT_EQ(category_hash(std::uint64_t{1} << 32).row_of("abc"), 31365350U);
  EXPECT_EQ(category_hash(100000).row_of(std::string(300, 'x')), 63510U);
  EXPECT_EQ(category_hash(1000).row_of(""), 0U);
}

TEST(CategoryHash, RemaindersAreExactForAnySize) {
  random_sequence random(2);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t bits = 1 + random.below(32);
    const std::uint64_t rows = 2 + random.below((std::uint64_t{1} << bits) - 1);
    const std::string text = std::to_string(random.bits());
    const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
    ASSERT_EQ(category_hash(rows).row_of(text), 1 + hash % (rows - 1)) << rows;
  }
}

// A line's fields; followed by the error, if there is one.
std::vector<std::string> fields_of(std::string line, char separator = ',') {
  const std::size_t size = line.size();
  line += "\",xxxxxx";  // text after the line is ignored
  csv_fields fields(std::string_view(line).substr(0, size), separator);
  std::vector<std::string> found;
  std::string_view field;
  while (fields.next(field)) found.emplace_back(field);
  EXPECT_FALSE(fields.next(field));
  if (fields.wrong() != nullptr) found.push_back(std::string("wrong: ") + fields.wrong());
  return found;
}

using texts = std::vector<std::string>;

TEST(CsvFields, SeparatorsDivideALine) {
  EXPECT_EQ(fields_of("a,b,c"), (texts{"a", "b", "c"}));
  EXPECT_EQ(fields_of(""), (texts{""}));
  EXPECT_EQ(fields_of(","), (texts{"", ""}));
  EXPECT_EQ(fields_of("a,,b,"), (texts{"a", "", "b", ""}));
  EXPECT_EQ(fields_of(" a , b"), (texts{" a ", " b"}));
  EXPECT_EQ(fields_of("a,b\tc", '\t'), (texts{"a,b", "c"}));
}

TEST(CsvFields, QuotesHoldSeparatorsAndDoubledQuotes) {
  EXPECT_EQ(fields_of("\"a,b\",c"), (texts{"a,b", "c"}));
  EXPECT_EQ(fields_of("\"\",\"\""), (texts{"", ""}));
  EXPECT_EQ(fields_of("\"a\","), (texts{"a", ""}));
  EXPECT_EQ(fields_of("\"say \"\"no\"\"\",b"), (texts{"say \"no\"", "b"}));
  EXPECT_EQ(fields_of("\"\"\"\",\"\"\"\"\"\""), (texts{"\"", "\"\""}));
  EXPECT_EQ(fields_of("a \"b\" c,5\""), (texts{"a \"b\" c", "5\""}));
}

TEST(CsvFields, WrongQuotesAreTold) {
  const std::string open =
      "wrong: the quotes do not end on this line: must be closed, without a line break within them";
  const std::string behind =
      "wrong: text behind the closing quote: must be the separator, or a quote within quotes doubled";
  EXPECT_EQ(fields_of("a,\"b"), (texts{"a", open}));
  EXPECT_EQ(fields_of("\""), (texts{open}));
  EXPECT_EQ(fields_of("\"\"\""), (texts{open}));
  EXPECT_EQ(fields_of("a,\"b,\"\""), (texts{"a", open}));
  EXPECT_EQ(fields_of("\"a\"b,c"), (texts{behind}));
  EXPECT_EQ(fields_of("\"a\" ,c"), (texts{behind}));
}

}  // namespace
}  // namespace troupe::model::fields_test
