#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/files/category_hash.hpp"
#include "model/files/file_rows.hpp"
#include "model/input_file.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::csv_test {
namespace {

const std::string all_kinds = R"([
    {"name": "clicked", "kind": "label"},
    {"name": "age", "kind": "numeric"},
    {"name": "price", "kind": "numeric", "transform": "log1p"},
    {"name": "city", "kind": "categorical", "rows": 50},
    {"name": "tags", "kind": "multi", "rows": 100, "separator": ";", "mode": "sum"},
    {"name": "colour", "kind": "categorical", "vocabulary": ["red", "green"]},
    {"name": "brands", "kind": "multi", "vocabulary": ["b1", "b2", "b3"]},
    {"name": "note", "kind": "ignore"}])";

std::vector<setting> settings_for(const temporary_file& file, const std::string& columns,
                                  const std::vector<setting>& more = {}) {
  std::vector<setting> settings{
      {"data", "csv:" + file.path()}, {"columns", columns}, {"rows", "1000"}, {"trainers", "1"}, {"batch-size", "1"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// All rows of the file in order: it is also used as the test file.
batch rows_of(const std::string& text, const std::string& columns, std::vector<setting> more = {}) {
  const temporary_file file(text);
  more.emplace_back("test-file", file.path());
  const auto data = opened(settings_for(file, columns, more));
  const auto made = data->test_batch(0, data->test_rows()).value();
  EXPECT_EQ(check_batch(data->spec(), made).value_or(""), "");
  return made;
}

// Why the file cannot be opened or used for training, without its name.
std::string fault_of(const std::string& text, const std::string& columns, const std::vector<setting>& more = {}) {
  const temporary_file file(text);
  const auto data = open_with(settings_for(file, columns, more));
  const auto message = data ? refusal((*data)->train_batch(0, 0)) : refusal(data);
  const bool is_named = message.substr(0, file.path().size()) == file.path();
  return is_named ? message.substr(file.path().size()) : message;
}

using indices = std::vector<std::int64_t>;

TEST(Csv, EveryKindOfColumnIsRead) {
  const std::string text =
      "note,city,clicked,extra,price,tags,age,brands,colour\n"
      "\"a,b\",Ulm,1,?,26,b1;b2;red,-2.5,b3|b1,green\n"
      ",,0,?,,,,,\n"
      "x,\"Ulm\",1,?,-3,;7,1e-3,b9||b2,blue\n";
  const auto made = rows_of(text, all_kinds);
  ASSERT_EQ(made.size, 3U);
  EXPECT_EQ(made.values, (std::vector<float>{1, 0, 1}));
  // age, then price, in the order of the descriptions; log(1 + 26) from Python.
  EXPECT_EQ(made.dense, (std::vector<float>{-2.5F, 3.295836925506592F, 0, 0, 1e-3F, 0}));
  const std::int64_t ulm = category_hash(50).row_of("Ulm");
  EXPECT_EQ(made.tables[0].indices, (indices{ulm, 0, ulm}));
  // Hashes from xxHash's shared library, remainders from Python.
  EXPECT_EQ(made.tables[1].indices, (indices{21, 69, 75, 0, 79}));
  EXPECT_EQ(made.tables[1].offsets, (indices{0, 3, 3}));
  EXPECT_EQ(made.tables[2].indices, (indices{2, 0, 0}));
  EXPECT_EQ(made.tables[3].indices, (indices{3, 1, 0, 0, 2}));
  EXPECT_EQ(made.tables[3].offsets, (indices{0, 2, 2}));
}

TEST(Csv, TablesHaveTheRowsAndModesOfTheirDescriptions) {
  const temporary_file file("clicked,age,price,city,tags,colour,brands,note\n1,,,,,,,\n");
  const auto data = opened(settings_for(file, all_kinds, {{"dim", "3"}}));
  using kernels::pooling;
  EXPECT_EQ(data->spec().tables, (std::vector<table_spec>{{50, 3, pooling::sum, false},
                                                          {100, 3, pooling::sum, false},
                                                          {3, 3, pooling::sum, false},
                                                          {4, 3, pooling::mean, false}}));
  EXPECT_EQ(data->spec().dense_features, 2U);
  EXPECT_TRUE(data->spec().binary_targets);
  EXPECT_EQ(data->spec().outputs, 1U);
}

const std::string label_and_city = R"([{"name": "y", "kind": "label"}, {"name": "city", "kind": "categorical"}])";

TEST(Csv, RowsIsTheDefaultOfEveryHashedColumn) {
  const temporary_file file("y,city\n1,Ulm\n");
  EXPECT_EQ(opened(settings_for(file, label_and_city))->spec().tables[0].rows, 1000);
}

TEST(Csv, ColumnsWithoutAHeaderGoByTheirOrder) {
  const std::string columns = R"([{"kind": "numeric"}, {"kind": "ignore"}, {"kind": "label"}])";
  const auto made = rows_of("5;x;1\n6;;0", columns, {{"header", "false"}, {"separator", ";"}});
  EXPECT_EQ(made.dense, (std::vector<float>{5, 6}));
  EXPECT_EQ(made.values, (std::vector<float>{1, 0}));
  EXPECT_EQ(fault_of("5,1,1\n6,x\n", columns, {{"header", "false"}}),
            " line 2: 2 columns in 6,x: must be 3, with ',' between them");
  EXPECT_EQ(fault_of("x,1,1\n", columns, {{"header", "false"}}),
            " line 1: column 1: x: must be a finite number, without blanks around it, or empty");
}

TEST(Csv, TheTestFileMayHaveItsColumnsInAnotherOrder) {
  const temporary_file train("clicked,age,price,city,tags,colour,brands,note\n1,2,,Ulm,b1,red,b1,\n");
  const temporary_file test(
      "\xef\xbb\xbf"
      "brands,tags,note,price,city,clicked,colour,age\r\nb2|b3,b1;b2,,,Ulm,0,green,7\r\n");
  const auto data = opened(settings_for(train, all_kinds, {{"test-file", test.path()}}));
  EXPECT_EQ(data->test_rows(), 1U);
  const auto made = data->test_batch(0, 1).value();
  const auto trained = data->train_batch(0, 0).value();
  EXPECT_EQ(made.values, std::vector<float>{0});
  EXPECT_EQ(made.dense, (std::vector<float>{7, 0}));
  EXPECT_EQ(made.tables[0].indices, trained.tables[0].indices);
  EXPECT_EQ(made.tables[1].indices, (indices{21, 69}));
  EXPECT_EQ(made.tables[2].indices, indices{2});
  EXPECT_EQ(made.tables[3].indices, (indices{2, 3}));
}

TEST(Csv, LabelsAreWhatTheLossWants) {
  const std::string text = "y,city\n3,a\n0,b\n";
  const auto classes = rows_of(text, label_and_city, {{"loss", "cross-entropy"}, {"classes", "4"}});
  EXPECT_EQ(classes.classes, (indices{3, 0}));
  EXPECT_EQ(rows_of("y,city\n-3.5,a\n1e6,b\n", label_and_city, {{"loss", "mse"}}).values,
            (std::vector<float>{-3.5F, 1e6F}));
  EXPECT_EQ(fault_of(text, label_and_city), " line 2: column 1 (y): 3: must be 0 or 1");
  const std::vector<setting> three{{"loss", "cross-entropy"}, {"classes", "3"}};
  const std::string limit = ": must be a whole number between 0 and 2, the class";
  EXPECT_EQ(fault_of(text, label_and_city, three), " line 2: column 1 (y): 3" + limit);
  EXPECT_EQ(fault_of("y,city\n0.5,a\n", label_and_city, three), " line 2: column 1 (y): 0.5" + limit);
  EXPECT_EQ(fault_of("y,city\nnan,a\n", label_and_city, three), " line 2: column 1 (y): nan" + limit);
  EXPECT_EQ(fault_of("y,city\n,a\n", label_and_city, {{"loss", "mse"}}),
            " line 2: column 1 (y): '': must be a finite number, without blanks around it");
  const temporary_file file(text);
  EXPECT_FALSE(opened(settings_for(file, label_and_city, three))->spec().binary_targets);
  EXPECT_TRUE(opened(settings_for(file, label_and_city, {{"loss", "cross-entropy"}}))->spec().binary_targets);
  EXPECT_FALSE(opened(settings_for(file, label_and_city, {{"loss", "mse"}}))->spec().binary_targets);
}

TEST(Csv, MalformedValuesAreRefusedWithTheirPlace) {
  const std::string columns = R"([{"name": "y", "kind": "label"}, {"name": "x", "kind": "numeric"},
                                  {"name": "z", "kind": "numeric", "transform": "log1p"}])";
  const std::string limit = ": must be a finite number, without blanks around it, or empty";
  EXPECT_EQ(fault_of("y,x,z\n1,abc,\n", columns), " line 2: column 2 (x): abc" + limit);
  EXPECT_EQ(fault_of("y,x,z\n1, 5,\n", columns), " line 2: column 2 (x):  5" + limit);
  EXPECT_EQ(fault_of("z,y,x\nnan,1,5\n", columns), " line 2: column 1 (z): nan" + limit);
  EXPECT_EQ(fault_of("y,x,z\n1,2\n", columns), " line 2: 2 columns in 1,2: must be 3, with ',' between them");
  EXPECT_EQ(fault_of("y,x,z\n1,2,3,4\n", columns), " line 2: 4 columns in 1,2,3,4: must be 3, with ',' between them");
  EXPECT_EQ(fault_of("y,x,z\n,,\n", columns), " line 2: column 1 (y): '': must be 0 or 1");
  EXPECT_EQ(
      fault_of("y,x,z\n1,\"2,3\n4\",5\n", columns),
      " line 2: column 2 (x): the quotes do not end on this line: must be closed, without a line break within them");
  EXPECT_EQ(fault_of("y,x,z\n1,\"2\"3,\n", columns),
            " line 2: column 2 (x): text behind the closing quote: must be the separator, or a quote within quotes "
            "doubled");
}

// A number must be finite before its transform, and the result must be within float32.
TEST(Csv, NumbersAreRefusedForTheLimitThatIsMeant) {
  const std::string columns = R"([{"name": "y", "kind": "label"}, {"name": "x", "kind": "numeric"},
                                  {"name": "z", "kind": "numeric", "transform": "log1p"}])";
  const std::string finite = ": must be a finite number, without blanks around it, or empty";
  const std::string float32 = ": must be between -3.4028235e+38 and 3.4028235e+38, the limits of float32, or empty";
  const std::string float64 =
      ": must be between -1.7976931348623157e+308 and 1.7976931348623157e+308, the limits of float64, or empty";
  for (const char* x : {"inf", "-inf", "+inf", "nan", "-nan", "infinity", "INF", "nan(1)", "+-1", "0x10"}) {
    EXPECT_EQ(fault_of(fmt::format("y,x,z\n1,{},\n", x), columns),
              fmt::format(" line 2: column 2 (x): {}{}", x, finite));
    EXPECT_EQ(fault_of(fmt::format("y,x,z\n1,,{}\n", x), columns),
              fmt::format(" line 2: column 3 (z): {}{}", x, finite));
  }
  for (const char* x : {"3.5e38", "-3.5e38", "1e39", "1e400", "-1e400"})
    EXPECT_EQ(fault_of(fmt::format("y,x,z\n1,{},\n", x), columns),
              fmt::format(" line 2: column 2 (x): {}", x) + float32);
  for (const char* x : {"1e400", "-1e400"})
    EXPECT_EQ(fault_of(fmt::format("y,x,z\n1,,{}\n", x), columns),
              fmt::format(" line 2: column 3 (z): {}", x) + float64);
  EXPECT_EQ(fault_of("y,x,z\n1e39,1,1\n", columns, {{"loss", "mse"}}),
            " line 2: column 1 (y): 1e39: must be between -3.4028235e+38 and 3.4028235e+38, the limits of float32");
}

TEST(Csv, NumbersAreReadToTheEndsOfFloat32) {
  const std::string columns = R"([{"name": "y", "kind": "label"}, {"name": "x", "kind": "numeric"},
                                  {"name": "z", "kind": "numeric", "transform": "log1p"}])";
  const auto made = rows_of(
      "y,x,z\n1,1e-400,1e-400\n+1,+2.5,+26\n1e-400,-1e-400,-1\n0,1e-40,-2\n0,3.4028235e38,-1e308\n1,+1e-50,1e39\n",
      columns);
  EXPECT_EQ(made.values, (std::vector<float>{1, 1, 0, 0, 0, 1}));
  EXPECT_EQ(made.dense, (std::vector<float>{0, 0, 2.5F, 3.295836925506592F, 0, 0, 1e-40F, 0, 3.4028235e38F, 0, 0,
                                            89.80081939697266F}));
  const auto labels = rows_of("y,x,z\n+1e-400,,\n-3.4e38,,\n", columns, {{"loss", "mse"}});
  EXPECT_EQ(labels.values, (std::vector<float>{0, -3.4e38F}));
}

// A label is never empty, so no row is a blank line, with any separator.
TEST(Csv, BlankLinesAreNoRows) {
  const auto expected = rows_of("y,city\n1,a\n0,b\n", label_and_city);
  for (const std::string& text :
       {std::string("y,city\n1,a\n0,b\n\n"), std::string("y,city\n1,a\n0,b\n\n\n\n  \n"),
        std::string("y,city\r\n1,a\r\n0,b\r\n\r\n"), std::string("\n\t\ny,city\n\n1,a\n\n\n0,b"),
        std::string("\xef\xbb\xbf\ny,city\n1,a\n \n0,b\n\r\n")}) {
    for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
      const auto made = rows_of(bytes, label_and_city);
      EXPECT_EQ(made.values, expected.values) << text;
      EXPECT_EQ(made.tables[0].indices, expected.tables[0].indices) << text;
    }
  }
  const std::string tabs = "y\tcity\n1\ta\n\t\n0\tb\n\t\t\n";
  EXPECT_EQ(rows_of(tabs, label_and_city, {{"separator", "tab"}}).values, expected.values);
}

TEST(Csv, BlankLinesAreToldWithTheFirstOne) {
  const temporary_file train("y,city\n1,a\n\n0,b\n\n");
  const temporary_file test("y,city\n1,a\n0,b\n\n");
  const temporary_file clean("y,city\n1,a\n");
  using lines = std::vector<std::string>;
  EXPECT_EQ(opened(settings_for(clean, label_and_city))->notes(), lines());
  EXPECT_EQ(opened(settings_for(train, label_and_city, {{"test-file", test.path()}}))->notes(),
            (lines{train.path() + ": 2 blank lines passed over, the first of them line 3",
                   test.path() + ": 1 blank line passed over, the first of them line 4"}));
  EXPECT_EQ(opened(settings_for(train, label_and_city, {{"test-file", train.path()}}))->notes().size(), 1U);
  EXPECT_EQ(opened(settings_for(clean, label_and_city))->digest(),
            opened(settings_for(temporary_file("\ny,city\n\n1,a\n\n"), label_and_city))->digest());
}

// Line numbers count all lines of the file, wherever its pieces begin.
TEST(Csv, PlacesOfFaultsCountBlankLines) {
  std::string text = "\ny,city\n";
  for (int row = 0; row < 60'000; ++row) text += row == 55'000 ? "2,Ulm\n" : row % 2 == 0 ? "1,Ulm\n\n" : "0,Ulm\n";
  for (const std::string& bytes : {text, gzip(text)}) {
    const temporary_file file(bytes);
    const auto data = opened(settings_for(file, label_and_city, {{"shuffle-rows", "1000"}, {"batch-size", "1000"}}));
    EXPECT_TRUE(data->train_batch(0, 0).has_value());
    EXPECT_EQ(refusal(data->train_batch(55, 0)), file.path() + " line 82503: column 1 (y): 2: must be 0 or 1");
  }
}

TEST(Csv, TheFirstPassFindsWhatNeedsNoValues) {
  const std::string columns = R"([{"name": "y", "kind": "label"}, {"name": "a", "kind": "numeric"}])";
  const auto refused = [&](const std::string& text, const std::vector<setting>& more = {}) {
    const temporary_file file(text);
    const temporary_file train("y,a\n1,2\n");
    const auto data = more.empty() ? open_with(settings_for(file, columns))
                                   : open_with(settings_for(train, columns, {{"test-file", file.path()}}));
    return refusal(data).substr(file.path().size());
  };
  std::string text = "y,a\n";
  for (int row = 0; row < 50'000; ++row) text += "1,2\n";
  const std::vector<setting> as_test_file{{"", ""}};
  EXPECT_EQ(refused(text + "1\n"), " line 50002: 1 columns in 1: must be 2, with ',' between them");
  EXPECT_EQ(refused(text + "1,2,3\n"), " line 50002: 3 columns in 1,2,3: must be 2, with ',' between them");
  EXPECT_EQ(refused(text + "\n1,2,\n"), " line 50003: 3 columns in 1,2,: must be 2, with ',' between them");
  EXPECT_EQ(refused(text + "1,\"2,3\"\n1,\"2\n"),
            " line 50003: column 2 (a): the quotes do not end on this line: must be closed, without a line break "
            "within them");
  EXPECT_EQ(refused(text + "\"1\"2,3\n"),
            " line 50002: column 1 (y): text behind the closing quote: must be the separator, or a quote within quotes "
            "doubled");
  EXPECT_EQ(refused(zstd(text + "1\n")), " line 50002: 1 columns in 1: must be 2, with ',' between them");
  EXPECT_EQ(refused("y,a\n1\n", as_test_file), " line 2: 1 columns in 1: must be 2, with ',' between them");
  // Values are parsed when training reaches them.
  const temporary_file later(text + "1,x\n");
  EXPECT_TRUE(open_with(settings_for(later, columns)).has_value());
}

TEST(Csv, BlanksInTheHeaderAreShown) {
  EXPECT_EQ(
      fault_of("y, city\n1,a\n", label_and_city),
      " line 1: no column is called city, but ' city' with blanks around it, which count; write it the same here");
  EXPECT_EQ(fault_of("\n\ncity,\ty\na,1\n", label_and_city),
            " line 3: no column is called y, but '\\x09y' with blanks around it, which count; write it the same here");
  EXPECT_EQ(
      rows_of("y, city\n1,a\n", R"([{"name": "y", "kind": "label"}, {"name": " city", "kind": "categorical"}])").size,
      1U);
}

TEST(Csv, CrLineEndsAreToldAsThat) {
  const std::string limit =
      ": has CR line ends: lines must end with LF or CR LF; write it anew, such as by tr '\\r' '\\n'";
  const std::vector<setting> no_header{{"header", "false"}};
  for (const std::string& text :
       {std::string("y,city\r1,a\r0,b\r"), std::string("y,city\r1,a"), std::string("\xef\xbb\xbfy,city\r1,a\r\n"),
        "y,city\r1," + std::string(2'000'000, 'a')}) {
    EXPECT_EQ(fault_of(text, label_and_city), limit);
    EXPECT_EQ(fault_of(text, label_and_city, no_header), limit);
    EXPECT_EQ(fault_of(gzip(text), label_and_city), limit);
  }
  EXPECT_EQ(fault_of("y,city\r", label_and_city), ": a header and no rows: must have at least one");
  EXPECT_EQ(fault_of("y,ci\rty\n1,a\n", label_and_city), " line 1: no column is called city; the nearest is ci\\x0dty");
  EXPECT_EQ(rows_of("1,a\rb\n0,c\n", label_and_city, no_header).size, 2U);
}

const std::string two_bags = R"([{"name": "y", "kind": "label"}, {"name": "a", "kind": "multi", "rows": 9},
                                 {"name": "b", "kind": "multi", "rows": 9}])";

TEST(Csv, ARowMayHaveSoManyValuesInItsBagsAndNoMore) {
  const std::string half(bag_values_max / 2 - 1, '|');
  const auto made = rows_of("y,a,b\n1," + half + "," + half + "\n", two_bags);
  EXPECT_EQ(made.tables[0].indices.size() + made.tables[1].indices.size(), bag_values_max);
  // Also in a row that is never used for training: it is found when the file is opened.
  const std::string text = "y,a,b\n1,a,b\n0," + half + "|," + half + "\n";
  for (const std::string& bytes : {text, zstd(text)}) {
    const temporary_file file(bytes);
    EXPECT_EQ(refusal(open_with(settings_for(file, two_bags))),
              file.path() +
                  " line 3: 65537 values in its bags: must be at most 65536; shorten them, or ignore a column "
                  "of kind multi");
  }
}

TEST(Csv, TheValuesThatAreCountedAreThoseThatAreRead) {
  const std::string text = "y,a,note,b\n1,x|y,p|q,\n0,\"x|\"\"y|z\",,|\n1,,\"a,b|c\",\"\"\n";
  const auto made = rows_of(text, two_bags);
  const temporary_file file(text);
  const auto job = parse_job(settings_for(file, two_bags)).value();
  const auto opened_file = open_data_file(file.path()).value();
  const auto found = find_rows(opened_file, csv_format(job, opened_file).value(), {1, 1}).value();
  EXPECT_EQ(found.block_values, (std::vector<std::uint64_t>{2, 5, 0}));
  EXPECT_EQ(made.tables[0].indices.size() + made.tables[1].indices.size(), 7U);
}

TEST(Csv, HeadersThatDoNotFitAreRefused) {
  EXPECT_EQ(fault_of("y,town,cit\n1,a,b\n", label_and_city), " line 1: no column is called city; the nearest is cit");
  EXPECT_EQ(fault_of("city,y,x,city\na,1,2,b\n", label_and_city), " line 1: columns 1 and 4 are both called city");
  // The names of unused columns do not matter.
  EXPECT_EQ(rows_of("city,y,x,x,\na,1,2,b,\n", label_and_city).size, 1U);
  EXPECT_EQ(fault_of("y,\"city\n1,a\n", label_and_city),
            " line 1: column 2: the quotes do not end on this line: must be closed, without a line break within them");
  EXPECT_EQ(fault_of("y,city\n", label_and_city), ": a header and no rows: must have at least one");
  EXPECT_EQ(fault_of("y,city", label_and_city), ": a header and no rows: must have at least one");
  EXPECT_EQ(fault_of("\ny,city\n\n\r\n", label_and_city), ": a header and no rows: must have at least one");
  EXPECT_EQ(fault_of("\n\n", label_and_city), ": no rows: must have at least one");
  EXPECT_EQ(fault_of("", label_and_city), ": empty: must have at least one row");
  EXPECT_EQ(fault_of(gzip(""), label_and_city), ": no rows: must have at least one");
  EXPECT_EQ(fault_of(std::string("y,\0city\n", 8), label_and_city),
            " line 1: a zero byte: must be text, plain or compressed by gzip or zstd");
}

TEST(Csv, CompressedFilesAreReadAsPlainOnes) {
  const std::string text = "y,city\r\n1,a\r\n0,b\r\n";
  const auto plain = rows_of(text, label_and_city);
  for (const std::string& bytes : {gzip(text), zstd(text)}) {
    const auto made = rows_of(bytes, label_and_city);
    EXPECT_EQ(made.tables[0].indices, plain.tables[0].indices);
    EXPECT_EQ(made.values, plain.values);
  }
}

}  // namespace
}  // namespace troupe::model::csv_test
