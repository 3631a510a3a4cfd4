#include "model/files/csv_columns.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/data_file.hpp"

namespace troupe::model::csv_columns_test {
namespace {

result<std::vector<csv_column>> columns_of(const std::string& text, bool header = true) {
  job job;
  job.columns = text;
  job.header = header;
  job.rows = 70;
  return parse_columns(job);
}

std::string fault_of(const std::string& text, bool header = true) {
  const auto message = refusal(columns_of(text, header));
  const std::string start = "--columns: ";
  EXPECT_EQ(message.substr(0, start.size()), start);
  return message.substr(std::min(start.size(), message.size()));
}

// The error for this column next to a label.
std::string fault_with(const std::string& description) {
  return fault_of(R"([{"name": "y", "kind": "label"}, )" + description + "]");
}

TEST(CsvColumns, DescriptionsHaveDefaults) {
  const auto columns = columns_of(R"([{"name": "y", "kind": "label"}, {"kind": "numeric", "name": "n"},
      {"name": "c", "kind": "categorical"}, {"name": "m", "kind": "multi"}, {"name": "i", "kind": "ignore"}])");
  ASSERT_TRUE(columns.has_value()) << columns.error().message;
  ASSERT_EQ(columns->size(), 5U);
  EXPECT_EQ((*columns)[0].kind, csv_kind::label);
  EXPECT_EQ((*columns)[1].name, "n");
  EXPECT_FALSE((*columns)[1].log1p);
  EXPECT_EQ((*columns)[2].rows, 70);
  EXPECT_EQ((*columns)[3].rows, 70);
  EXPECT_EQ((*columns)[3].separator, '|');
  EXPECT_EQ((*columns)[3].mode, kernels::pooling::mean);
  EXPECT_EQ((*columns)[4].kind, csv_kind::ignore);
}

TEST(CsvColumns, KeysReachTheirFields) {
  const auto columns = columns_of(R"([{"kind": "label"}, {"kind": "numeric", "transform": "log1p"},
      {"kind": "categorical", "rows": 4294967296}, {"kind": "multi", "rows": 2, "separator": " ", "mode": "max"},
      {"kind": "categorical", "vocabulary": ["a", "b"]}])",
                                  false);
  ASSERT_TRUE(columns.has_value()) << columns.error().message;
  EXPECT_TRUE((*columns)[1].log1p);
  EXPECT_EQ((*columns)[2].rows, 4294967296);
  EXPECT_EQ((*columns)[3].rows, 2);
  EXPECT_EQ((*columns)[3].separator, ' ');
  EXPECT_EQ((*columns)[3].mode, kernels::pooling::max);
  EXPECT_EQ((*columns)[4].rows, 3);
  EXPECT_EQ((*columns)[4].vocabulary, (std::vector<std::string>{"a", "b"}));
}

TEST(CsvColumns, KeysThatDoNotBelongAreRefused) {
  EXPECT_EQ(fault_with(R"({"name": "tags", "kind": "multi", "seperator": ";"})"),
            "column 2 (tags): seperator: unknown key; the nearest is separator");
  EXPECT_EQ(fault_with(R"({"name": "age", "kind": "numeric", "mode": "sum"})"),
            "column 2 (age): mode: numeric has no such key; it has name, kind or transform");
  EXPECT_EQ(fault_with(R"({"name": "age", "kind": "ignore", "rows": 5})"),
            "column 2 (age): rows: ignore has no such key; it has name or kind");
  EXPECT_EQ(fault_with(R"({"name": "c", "kind": "categorical", "rows": 5, "vocabulary": ["a"]})"),
            "column 2 (c): rows: must be left out where there is a vocabulary, which has a row for each of its texts");
}

TEST(CsvColumns, KeysGivenTwiceAreRefused) {
  EXPECT_EQ(
      refusal(columns_of(R"([{"kind": "label"}, {"kind": "numeric", "kind": "multi"}])")),
      R"(--columns [{"kind": "label"}, {"kind": "numeric", "kind": "multi"}]: key kind of [1] is given twice, at )"
      "byte 45; must be a JSON array of objects");
}

TEST(CsvColumns, MalformedValuesAreRefused) {
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "numerical"})"),
            "column 2 (a): kind numerical: unknown; the nearest is numeric, and there are categorical, ignore, label, "
            "multi or numeric");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": 5})"),
            "column 2 (a): kind 5: must be categorical, ignore, label, multi or numeric");
  EXPECT_EQ(fault_with(R"({"name": "a"})"),
            "column 2 (a): kind is missing: must be label, numeric, categorical, multi or ignore");
  EXPECT_EQ(fault_with(R"({"kind": "numeric"})"), "column 2: name is missing: must be one of the header's names");
  EXPECT_EQ(fault_with(R"({"name": "", "kind": "numeric"})"), "column 2: name '': must be a text that is not empty");
  EXPECT_EQ(fault_with(R"({"name": ["a"], "kind": "numeric"})"),
            "column 2: name [\"a\"]: must be a text that is not empty");
  const std::string rows = ": must be a whole number between 2 and 4294967296";
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "rows": 1})"), "column 2 (a): rows 1" + rows);
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "rows": 1.5})"), "column 2 (a): rows 1.5E0" + rows);
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "rows": "9"})"), "column 2 (a): rows 9" + rows);
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "rows": 4294967297})"),
            "column 2 (a): rows 4294967297" + rows);
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "separator": "||"})"),
            "column 2 (a): separator ||: must be one ASCII character, of one byte, other than a line's end");
  for (const char* separator : {"\xc2\xb7", "\xc2\xa7", "", "\\n", "\\r", "\\u0000", "\xf0\x9f\x98\x80"})
    EXPECT_NE(fault_with(fmt::format(R"({{"name": "a", "kind": "multi", "separator": "{}"}})", separator))
                  .find("must be one ASCII character, of one byte"),
              std::string::npos)
        << separator;
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "mode": "men"})"),
            "column 2 (a): mode men: unknown; the nearest is mean, and there are max, mean or sum");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "numeric", "transform": "log"})"),
            "column 2 (a): transform log: unknown; the nearest is log1p, and there are log1p or none");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "vocabulary": []})"),
            "column 2 (a): vocabulary []: must be an array of at least one text");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "vocabulary": ["b", 3]})"),
            "column 2 (a): vocabulary 3: must be a text that is not empty; an empty field is a missing value, which "
            "has row 0");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "multi", "vocabulary": ["b", "c", "b"]})"),
            "column 2 (a): vocabulary: b is given twice");
  EXPECT_EQ(fault_with("7"), "column 2: 7: must be an object");
}

TEST(CsvColumns, ColumnsThatDoNotGoTogetherAreRefused) {
  EXPECT_EQ(fault_of("[]"), "no column is the label; give one kind label");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "ignore"})"),
            "no column is a feature; give one kind numeric, categorical or multi");
  EXPECT_EQ(fault_with(R"({"name": "z", "kind": "label"})"), "columns 1 and 2 are both labels; must be one");
  EXPECT_EQ(fault_with(R"({"name": "a", "kind": "numeric"}, {"name": "y", "kind": "ignore"})"),
            "columns 1 and 3 are both called y; describe a column once");
  std::string many = R"({"name": "c0", "kind": "categorical"})";
  for (int i = 1; i <= 4096; ++i) many += fmt::format(R"(, {{"name": "c{}", "kind": "categorical"}})", i);
  EXPECT_EQ(fault_with(many), "4097 columns are categorical or multi; must be at most 4096");
}

TEST(CsvColumns, WhatIsNoJsonArrayIsRefused) {
  EXPECT_EQ(refusal(columns_of("[{]")), "--columns [{]: syntax error at byte 2; must be a JSON array of objects");
  EXPECT_EQ(refusal(columns_of("")), "--columns '': incomplete JSON at byte 0; must be a JSON array of objects");
  EXPECT_EQ(refusal(columns_of("{}")), "--columns {}: must be a JSON array of objects");
}

}  // namespace
}  // namespace troupe::model::csv_columns_test
