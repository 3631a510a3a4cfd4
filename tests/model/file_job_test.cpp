// The settings of data in files: criteo and csv.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/job.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::file_job_test {
namespace {

job parsed(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(job{});
}

std::string refusal(const std::vector<setting>& given) { return refusal(parse_job(given)); }

const std::string some_columns = R"([{"name": "y", "kind": "label"}, {"name": "c", "kind": "categorical"}])";
const std::string no_tables = R"([{"name": "y", "kind": "label"}, {"name": "n", "kind": "numeric"}])";

TEST(FileJob, ACsvFilesColumnsHaveDefaults) {
  const auto settings = to_settings(parsed({{"data", "csv:x"}, {"columns", no_tables}}));
  const std::map<std::string, std::string> of(settings.begin(), settings.end());
  EXPECT_EQ(of.at("columns"), no_tables);
  EXPECT_EQ(of.at("header"), "true");
  EXPECT_EQ(of.at("separator"), ",");
  EXPECT_EQ(of.at("classes"), "2");
  EXPECT_EQ(of.at("rows"), "100000");
  EXPECT_EQ(of.at("shuffle-rows"), "65536");
  EXPECT_EQ(of.at("test-fraction"), "0");
  EXPECT_FALSE(of.contains("test-file"));
}

TEST(FileJob, SettingsOfFilesReachTheirFields) {
  const job made = parsed({{"data", "csv:a:b"},
                           {"columns", no_tables},
                           {"header", "false"},
                           {"separator", "tab"},
                           {"test-file", "t"},
                           {"shuffle-rows", "77"}});
  EXPECT_EQ(made.data, "csv:a:b");
  EXPECT_EQ(made.columns, no_tables);
  EXPECT_FALSE(made.header);
  EXPECT_EQ(made.separator, '\t');
  EXPECT_EQ(made.test_file, "t");
  EXPECT_EQ(made.shuffle_rows, 77U);
  EXPECT_EQ(parsed({{"data", "criteo:x"}, {"test-fraction", "0.25"}}).test_fraction, 0.25);
}

TEST(FileJob, SettingsOfFilesAreRefusedElsewhere) {
  for (const char* name : {"shuffle-rows", "test-fraction"}) {
    EXPECT_NE(refusal({{"data", "synthetic"}, {name, "0.5"}}).find("use it with --data criteo or csv"),
              std::string::npos)
        << name;
  }
  EXPECT_EQ(refusal({{"data", "synthetic"}, {"test-file", "t"}}),
            "--test-file t: synthetic has no such setting; leave it out, or use it with --data criteo, csv or idx");
  for (const char* name : {"columns", "header", "separator", "shuffle-rows", "test-fraction", "dim", "rows"}) {
    EXPECT_NE(refusal({{"data", "idx:a,b"}, {name, "5"}}).find("idx has no such setting"), std::string::npos) << name;
  }
  for (const char* name : {"columns", "header", "separator", "classes"}) {
    EXPECT_NE(refusal({{"data", "criteo:x"}, {name, "5"}}).find("criteo has no such setting"), std::string::npos)
        << name;
  }
  EXPECT_EQ(refusal({{"data", "criteo"}}), "--data criteo: must name a file: criteo:FILE");
  EXPECT_EQ(refusal({{"data", "csv:"}}), "--data csv:: must name a file: csv:FILE");
}

TEST(FileJob, SettingsOfFilesThatDoNotGoTogetherAreRefused) {
  const auto csv = [](std::vector<setting> more) {
    more.insert(more.begin(), {{"data", "csv:x"}, {"columns", some_columns}});
    return more;
  };
  EXPECT_EQ(refusal({{"data", "csv:x"}}),
            "--columns: must be given with --data csv:FILE: it says what the columns are");
  EXPECT_EQ(refusal({{"data", "csv:x"}, {"columns", "[{\"kind\": \"label\"}]"}}),
            "--columns: column 1: name is missing: must be one of the header's names");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"test-file", "t"}, {"test-fraction", "0.1"}}),
            "--test-fraction 0.1: --test-file t has the test rows already; use one of the two");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"test-fraction", "1"}}),
            "--test-fraction 1: must be a number of at least 0 and below 1");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"rows", "1"}}),
            "--rows 1: must be between 2 and 4294967296 for tables of a file");
  EXPECT_EQ(refusal(csv({{"rows", "4294967297"}})),
            "--rows 4294967297: must be between 2 and 4294967296 for tables of a file");
  EXPECT_EQ(refusal({{"data", "criteo:x"}, {"rows", "4294967296"}}),
            "--rows 4294967296: 26 table(s) of 111669149696 rows in all, x 16, would be more than 1099511627776 "
            "weights; use fewer rows");
  EXPECT_EQ(refusal(csv({{"loss", "mse"}, {"classes", "3"}})),
            "--classes 3: --loss mse has no classes; leave it out, or use cross-entropy");
  EXPECT_EQ(refusal(csv({{"classes", "3"}})), "--loss bce-logits: needs --classes 2, not 3; use cross-entropy or mse");
  EXPECT_EQ(parsed(csv({{"loss", "cross-entropy"}, {"classes", "3"}})).classes, 3U);
  EXPECT_EQ(refusal(csv({{"servers", "0"}})),
            "--servers 0: must be between 1 and 1024; csv:x has tables, which servers keep");
  EXPECT_EQ(parsed({{"data", "csv:x"}, {"columns", no_tables}, {"servers", "0"}}).servers, 0U);
  // The input's width: 26 x 65536 + 13, times 65536.
  EXPECT_NE(refusal({{"data", "criteo:x"}, {"dim", "65536"}, {"rows", "2"}, {"hidden", "65536"}})
                .find("the network would have 111670132737 weights"),
            std::string::npos);
  EXPECT_NE(refusal(csv({{"dim", "65536"}, {"rows", "2"}, {"hidden", "65536"}})).find("4295098369 weights"),
            std::string::npos);
}

// Names of any kind, since files may have any name.
TEST(FileJob, JobsOnFilesSurviveTheWayThroughSettings) {
  const std::string columns = R"([{"name": "a \"b\", c", "kind": "label"}, {"name": "n", "kind": "numeric"}])";
  for (const char* separator : {",", "tab", "=", " "}) {
    const job made = parsed({{"data", "csv:a=b: c"},
                             {"columns", columns},
                             {"header", "true"},
                             {"separator", separator},
                             {"test-file", "t \"=#"},
                             {"shuffle-rows", "1000000000"},
                             {"classes", "7"},
                             {"loss", "cross-entropy"},
                             {"rows", "4294967296"}});
    const job again = parsed(to_settings(made));
    EXPECT_EQ(again.data, made.data);
    EXPECT_EQ(again.rows, made.rows);
    EXPECT_EQ(again.classes, made.classes);
    EXPECT_EQ(again.columns, columns);
    EXPECT_EQ(again.header, made.header);
    EXPECT_EQ(again.separator, made.separator);
    EXPECT_EQ(again.test_file, made.test_file);
    EXPECT_EQ(again.shuffle_rows, made.shuffle_rows);
    EXPECT_EQ(to_settings(again), to_settings(made));
  }
  const job made = parsed({{"data", "criteo:x"}, {"test-fraction", "0.123456789012345"}, {"seed", "5"}});
  const job again = parsed(to_settings(made));
  EXPECT_EQ(again.test_fraction, 0.123456789012345);
  EXPECT_TRUE(again.test_file.empty());
}

}  // namespace
}  // namespace troupe::model::file_job_test
