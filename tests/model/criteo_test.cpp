#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/files/category_hash.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::criteo_test {
namespace {

// The columns of a line, joined by tabs.
std::string line_of(const std::vector<std::string>& columns) { return fmt::format("{}\n", fmt::join(columns, "\t")); }

// Label, I1 to I13, C1 to C26.
std::vector<std::string> sound_columns() {
  std::vector<std::string> columns{"0",  "1",  "",    "3",    "26",   "1382", "4",
                                   "15", "-2", "181", "4095", "4096", "0",    "4611686018427387904"};
  for (int i = 0; i < 26; ++i) columns.push_back(i == 1 ? "" : i == 2 ? "80e26c9b" : "68fd1e64");
  return columns;
}

std::vector<setting> settings_for(const temporary_file& file, std::vector<setting> more = {}) {
  more.insert(more.begin(),
              {{"data", "criteo:" + file.path()}, {"rows", "1000"}, {"trainers", "1"}, {"batch-size", "1"}});
  return more;
}

batch first_batch(const std::string& text, const std::vector<setting>& more = {}) {
  const temporary_file file(text);
  return opened(settings_for(file, more))->train_batch(0, 0).value();
}

// Why the file is refused, without its name.
std::string fault_of(const std::string& text) {
  const temporary_file file(text);
  const auto data = open_with(settings_for(file));
  const auto message = data ? refusal((*data)->train_batch(0, 0)) : refusal(data);
  EXPECT_EQ(message.substr(0, file.path().size()), file.path()) << message;
  return message.substr(std::min(message.size(), file.path().size()));
}

std::string fault_with(std::size_t column, const std::string& value) {
  auto columns = sound_columns();
  columns[column] = value;
  return fault_of(line_of(sound_columns()) + line_of(columns));
}

TEST(Criteo, Has13Numbers26TablesAndTwoClasses) {
  const temporary_file file(line_of(sound_columns()));
  const auto data = opened(settings_for(file, {{"dim", "5"}}));
  EXPECT_EQ(data->spec().tables, std::vector<table_spec>(26, {1000, 5, kernels::pooling::sum, false}));
  EXPECT_EQ(data->spec().dense_features, 13U);
  EXPECT_EQ(data->spec().outputs, 1U);
  EXPECT_TRUE(data->spec().binary_targets);
  EXPECT_EQ(opened(settings_for(file, {{"loss", "cross-entropy"}}))->spec().outputs, 2U);
  EXPECT_EQ(data->steps_per_epoch(), 1U);
  EXPECT_EQ(data->test_rows(), 0U);
  EXPECT_EQ(data->test_batch(0, 0)->size, 0U);
}

// Logarithms from Python's math.log1p; missing and negative integers become 0.
TEST(Criteo, IntegersAreLogarithms) {
  const auto made = first_batch(line_of(sound_columns()));
  const std::vector<float> expected{
      0.6931471824645996F, 0, 1.3862943649291992F, 3.295836925506592F, 7.232010364532471F, 1.6094379124341003F,
      2.772588722239781F,  0, 5.204006687076795F,  8.317766189575195F, 8.318010330200195F, 0,
      42.97512435913086F};
  EXPECT_EQ(made.dense, expected);
}

TEST(Criteo, CategoriesAreHashedAndMissingOnesAreRow0) {
  const auto made = first_batch(line_of(sound_columns()));
  ASSERT_EQ(made.tables.size(), 26U);
  for (std::size_t t = 0; t < 26; ++t) {
    EXPECT_EQ(made.tables[t].indices, std::vector<std::int64_t>(1, t == 1 ? 0 : t == 2 ? 335 : 79));
    EXPECT_EQ(made.tables[t].offsets, std::vector<std::int64_t>(1, 0));
  }
  EXPECT_EQ(first_batch(line_of(sound_columns()), {{"rows", "100000"}}).tables[0].indices[0], 99448);
  EXPECT_EQ(first_batch(line_of(sound_columns()), {{"rows", "2"}}).tables[0].indices[0], 1);
  auto columns = sound_columns();
  columns[14] = "not hexadecimal at all";
  columns[39] = "";
  const auto other = first_batch(line_of(columns));
  EXPECT_EQ(other.tables[0].indices[0], category_hash(1000).row_of("not hexadecimal at all"));
  EXPECT_EQ(other.tables[25].indices[0], 0);
}

TEST(Criteo, LabelsAreValuesOrClasses) {
  auto columns = sound_columns();
  EXPECT_EQ(first_batch(line_of(columns)).values, std::vector<float>{0});
  columns[0] = "1";
  EXPECT_EQ(first_batch(line_of(columns)).values, std::vector<float>{1});
  const auto classes = first_batch(line_of(columns), {{"loss", "cross-entropy"}});
  EXPECT_EQ(classes.classes, std::vector<std::int64_t>{1});
  EXPECT_TRUE(classes.values.empty());
}

TEST(Criteo, ALineMayEndInAnyWay) {
  const std::string line = line_of(sound_columns());
  const std::string bare = line.substr(0, line.size() - 1);
  for (const std::string& text : {bare, bare + "\r\n", "\xef\xbb\xbf" + line, gzip(line), zstd(bare)}) {
    const auto made = first_batch(text);
    EXPECT_EQ(made.size, 1U);
    EXPECT_EQ(made.tables[25].indices[0], 79);
  }
}

TEST(Criteo, MalformedValuesAreRefusedWithTheirPlace) {
  const std::string whole = ": must be a whole number of 64 bits, or empty";
  EXPECT_EQ(fault_with(3, "12x"), " line 2: column 4 (I3): 12x" + whole);
  EXPECT_EQ(fault_with(13, "1.5"), " line 2: column 14 (I13): 1.5" + whole);
  EXPECT_EQ(fault_with(1, "9223372036854775808"), " line 2: column 2 (I1): 9223372036854775808" + whole);
  EXPECT_EQ(fault_with(1, " 1"), " line 2: column 2 (I1):  1" + whole);
  EXPECT_EQ(fault_with(1, "-"), " line 2: column 2 (I1): -" + whole);
  EXPECT_EQ(fault_with(0, "2"), " line 2: column 1 (label): 2: must be 0 or 1");
  EXPECT_EQ(fault_with(0, ""), " line 2: column 1 (label): '': must be 0 or 1");
  EXPECT_EQ(fault_with(0, "01"), " line 2: column 1 (label): 01: must be 0 or 1");
}

TEST(Criteo, WrongNumbersOfColumnsAreRefused) {
  const std::string line = line_of(sound_columns());
  auto columns = sound_columns();
  columns.emplace_back("x");
  EXPECT_NE(fault_of(line + line_of(columns)).find(" line 2: 41 columns in 0\\x091\\x09\\x093"), std::string::npos);
  columns.resize(39);
  EXPECT_NE(fault_of(line_of(columns)).find(": must be 40, with tabs between them"), std::string::npos);
  EXPECT_EQ(fault_of("0,1,2\n"), " line 1: 1 columns in 0,1,2: must be 40, with tabs between them");
  EXPECT_EQ(fault_of("0\n"), " line 1: 1 columns in 0: must be 40, with tabs between them");
}

TEST(Criteo, BlankLinesAreNoRows) {
  const std::string line = line_of(sound_columns());
  for (const std::string& text : {line + "\n", line + "\r\n\r\n", "\n" + line, "\n \n" + line + "\t\t\n\n"}) {
    for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
      const temporary_file file(bytes);
      const auto data = opened(settings_for(file));
      EXPECT_EQ(data->train_rows(), 1U);
      EXPECT_EQ(data->train_batch(0, 0).value().tables[25].indices[0], 79);
      ASSERT_EQ(data->notes().size(), 1U);
      EXPECT_NE(data->notes()[0].find("passed over"), std::string::npos);
    }
  }
}

TEST(Criteo, NumbersMayHaveAPlusSign) {
  auto columns = sound_columns();
  columns[0] = "+1";
  columns[1] = "+26";
  EXPECT_EQ(first_batch(line_of(columns)).values, std::vector<float>{1});
  EXPECT_EQ(first_batch(line_of(columns)).dense[0], 3.295836925506592F);
}

TEST(Criteo, WhatTheFirstPassFindsIsRefusedBeforeTraining) {
  const auto refused = [](const std::string& bytes) {
    const temporary_file file(bytes);
    return refusal(open_with(settings_for(file))).substr(file.path().size());
  };
  const std::string line = line_of(sound_columns());
  EXPECT_EQ(refused(""), ": empty: must have at least one row");
  EXPECT_EQ(refused(gzip("")), ": no rows: must have at least one");
  EXPECT_EQ(refused(line + std::string("\0\0", 2)),
            " line 2: a zero byte: must be text, plain or compressed by gzip or zstd");
  EXPECT_EQ(refused(line + std::string(2'000'000, '1')), " line 2: more than 1048576 bytes: must be at most as many");
  EXPECT_EQ(refused(line + line + "0\t1\n").substr(0, 18), " line 3: 2 columns");
  EXPECT_EQ(refused("0\t1\r0\t1\r"),
            ": has CR line ends: lines must end with LF or CR LF; write it anew, such as by tr '\\r' '\\n'");
  EXPECT_NE(refused(gzip(line).substr(0, 50)).find(": the gzip data are cut off"), std::string::npos);
  EXPECT_NE(refused(zstd(line).substr(0, 50)).find(": the zstd data are cut off"), std::string::npos);
  EXPECT_NE(refused(gzip(line) + line).find(": something else follows the gzip data"), std::string::npos);
  EXPECT_EQ(refusal(open_with({{"data", "criteo:/no/such/file"}})),
            "/no/such/file: No such file or directory; a data file is expected");
  const temporary_file file(line);
  EXPECT_EQ(refusal(open_with(settings_for(file, {{"test-file", "/no/such/test"}}))),
            "/no/such/test: No such file or directory; a data file is expected");
}

}  // namespace
}  // namespace troupe::model::criteo_test
