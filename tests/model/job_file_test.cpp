// Job files: reading, printing, and the errors, with line numbers, for faulty ones.

#include "model/job_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "tests/model/tensor_file.hpp"

namespace troupe::model::job_file_test {
namespace {

/// A job's settings, and one of the run itself.
std::vector<setting_info> known() {
  std::vector<setting_info> all = job_settings();
  all.push_back({"threads", "", "", "", setting_type::whole});
  return all;
}

std::vector<setting> read(const std::string& text) {
  const temporary_file file(text);
  const auto made = read_job_file(file.path(), known());
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  std::vector<setting> given;
  if (!made) return given;
  for (const auto& entry : made->entries) given.push_back(entry.given);
  return given;
}

/// The text that one line of a job file gives to its setting.
std::string value_in(const std::string& line) {
  const auto given = read(line + "\n");
  EXPECT_EQ(given.size(), 1U) << line;
  return given.empty() ? "" : given.front().second;
}

/// The error for a file with this content, without its name.
std::string refusal(const std::string& text) {
  const temporary_file file(text);
  const auto made = read_job_file(file.path(), known());
  EXPECT_FALSE(made) << text;
  if (made) return "";
  const std::string message = made.error().message;
  EXPECT_EQ(made.error().kind, fault_kind::input);
  EXPECT_TRUE(std::ranges::none_of(message, [](unsigned char c) { return c < 0x20; })) << message;
  EXPECT_TRUE(message.starts_with(file.path())) << message;
  return message.substr(file.path().size());
}

std::string printed(const std::vector<setting>& settings) {
  const auto text = print_job(settings, known());
  EXPECT_TRUE(text) << (text ? "" : text.error().message);
  return text.value_or("");
}

TEST(JobFile, SettingsComeAsTextsInTheOrderOfTheHelp) {
  EXPECT_EQ(read("# a comment\n"
                 "threads = 3\n"
                 "hidden = [64, 32]  # another\n"
                 "dense-lr = 0.5\n"
                 "loss = 'mse'\n"
                 "\"seed\" = 7\n"),
            (std::vector<setting>{
                {"seed", "7"}, {"hidden", "64,32"}, {"loss", "mse"}, {"dense-lr", "0.5"}, {"threads", "3"}}));
  EXPECT_TRUE(read("# nothing but a comment").empty());
  EXPECT_EQ(read("\xef\xbb\xbfseed = 1\r\nepochs = 2\r\n"), (std::vector<setting>{{"epochs", "2"}, {"seed", "1"}}));
}

TEST(JobFile, EachSettingKnowsItsLine) {
  const temporary_file file("\nhidden = [\n 64\n]\n\nseed = 1\n[[columns]]\nname = 'a'\n");
  const auto made = read_job_file(file.path(), known());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->path, file.path());
  ASSERT_EQ(made->entries.size(), 3U);
  EXPECT_EQ(made->entries[0].line, 6U);
  EXPECT_EQ(made->entries[1].line, 7U);
  EXPECT_EQ(made->entries[2].line, 2U);
}

TEST(JobFile, NumbersKeepEveryDigit) {
  EXPECT_EQ(value_in("seed = 18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(value_in("seed = 99999999999999999999"), "99999999999999999999");  // parse_job refuses it
  EXPECT_EQ(value_in("seed = 0xffff_ffff_ffff_ffff"), "18446744073709551615");
  EXPECT_EQ(value_in("seed = 0o17"), "15");
  EXPECT_EQ(value_in("seed = 0b101"), "5");
  EXPECT_EQ(value_in("seed = 0x1_0000_0000_0000_0000"), "0x10000000000000000");  // also for parse_job
  EXPECT_EQ(value_in("rows = +1_000_000"), "1000000");
  EXPECT_EQ(value_in("epochs = -1"), "-1");
  EXPECT_EQ(value_in("dense-lr = 0.1000000000000000055511151231257827"), "0.1000000000000000055511151231257827");
  EXPECT_EQ(value_in("dense-lr = +5e-324"), "5e-324");
  EXPECT_EQ(value_in("dense-lr = 1e400"), "1e400");
  EXPECT_EQ(value_in("dense-lr = 2"), "2");
  EXPECT_EQ(value_in("dense-lr = nan"), "nan");
  EXPECT_EQ(value_in("clip-norm = 1_0.5"), "10.5");
}

TEST(JobFile, ListsAndTruthsComeInTheFormOfTheCommandLine) {
  EXPECT_EQ(value_in("hidden = []"), "none");
  EXPECT_EQ(value_in("hidden = [ 7 ]"), "7");
  EXPECT_EQ(value_in("hidden = [1_000, 0x10,\n 3,]"), "1000,16,3");
  EXPECT_EQ(value_in("hidden = '64,32'"), "64,32");
  EXPECT_EQ(value_in("hidden = 'none'"), "none");
  EXPECT_EQ(value_in("metrics = []"), "none");
  EXPECT_EQ(value_in("metrics = ['mae', \"f1\"]"), "mae,f1");
  EXPECT_EQ(value_in("metrics = 'mae,f1'"), "mae,f1");
  EXPECT_EQ(value_in("header = false"), "false");
  EXPECT_EQ(value_in("separator = \"\\t\""), "\t");
}

TEST(JobFile, StringsComeAsTheyAre) {
  EXPECT_EQ(value_in(R"(data = "csv:a \"b\" \\ \t\n é \u00e9 \U0001F600")"),
            "csv:a \"b\" \\ \t\n \xc3\xa9 \xc3\xa9 \xf0\x9f\x98\x80");
  EXPECT_EQ(value_in(R"(data = 'csv:\n#[')"), "csv:\\n#[");
  EXPECT_EQ(value_in("data = \"\"\"\ncsv:\\\n   x\"\"\""), "csv:x");
}

TEST(JobFile, ColumnsBecomeJson) {
  EXPECT_EQ(value_in("[[columns]]\nkind = 'label'\nname = \"cli\\\"cked\"\n"
                     "[[columns]]\nname = 'user'\nrows = 1_000\nvocabulary = ['a', 'b']\nmode = 'sum'\n"),
            R"([{"name":"cli\"cked","kind":"label"},)"
            R"({"name":"user","rows":1000,"vocabulary":["a","b"],"mode":"sum"}])");
  EXPECT_EQ(value_in("columns = [{name = 'a'}, {name = 'b'}]"), R"([{"name":"a"},{"name":"b"}])");
  EXPECT_EQ(value_in("columns = '[{\"name\": 1}]'"), R"([{"name": 1}])");
  EXPECT_EQ(value_in("columns = []"), "[]");
}

TEST(JobFile, UnknownSettingsAreRefusedWithLineAndNearest) {
  EXPECT_EQ(refusal("seed = 1\n\nbathc-size = 3\n"), ":3: bathc-size: unknown setting; the nearest is batch-size");
  EXPECT_EQ(refusal("thread = 1"), ":1: thread: unknown setting; the nearest is threads");
  EXPECT_EQ(refusal("--seed = 1"), ":1: --seed: unknown setting; the nearest is seed");
  EXPECT_EQ(refusal("\"a\\nb\\u001b\" = 1").substr(0, 12), ":1: a\\x0ab\\x");
  EXPECT_EQ(refusal("[[column]]\nname = 'a'\n"), ":1: column: unknown setting; the nearest is columns");
  EXPECT_EQ(
      refusal("[[columns]]\nname = 'a'\n\nknid = 'label'\n"),
      ":4: knid: a column has no such key; the nearest is kind, and there are name, kind, rows, vocabulary, separator, "
      "mode or transform");
  // Lines after a column's entry belong to it.
  EXPECT_NE(
      refusal("[[columns]]\nname = 'a'\nseed = 1\n").find(":3: seed: a column has no such key; the nearest is kind"),
      std::string::npos);
}

TEST(JobFile, SectionsAreRefused) {
  EXPECT_EQ(refusal("seed = 1\n[optimizer]\nname = 'sgd'\n"),
            ":2: optimizer: a job file has no such section; its settings need no section, columns as "
            "[[columns]] and layers as [[layers]]");
  EXPECT_EQ(refusal("a.b.c = 1\n").substr(0, 37), ":1: a: a job file has no such section");
  EXPECT_EQ(refusal("\n[seed]\n"), ":2: seed = [seed]: must be a whole number");
  EXPECT_EQ(refusal("seed.x = 1"), ":1: seed = seed.x: must be a whole number");
  EXPECT_EQ(refusal("[columns]\nname = 'a'\n"), ":1: columns = [columns]: must be [[columns]] entries");
}

TEST(JobFile, ValuesOfAnotherTypeAreRefused) {
  EXPECT_EQ(refusal("batch-size = true"), ":1: batch-size = true: must be a whole number");
  EXPECT_EQ(refusal("seed = 1.0"), ":1: seed = 1.0: must be a whole number");
  EXPECT_EQ(refusal("seed = \"1\""), ":1: seed = \"1\": must be a whole number");
  EXPECT_EQ(refusal("dense-lr = '0.1'"), ":1: dense-lr = '0.1': must be a number");
  EXPECT_EQ(refusal("dense-lr = [0.1]"), ":1: dense-lr = [0.1]: must be a number");
  EXPECT_EQ(refusal("data = 1979-05-27"), ":1: data = 1979-05-27: must be a text in quotes");
  EXPECT_EQ(refusal("data = 7"), ":1: data = 7: must be a text in quotes");
  EXPECT_EQ(refusal("header = 'yes'"), ":1: header = 'yes': must be true or false");
  EXPECT_EQ(refusal("header = 1"), ":1: header = 1: must be true or false");
  EXPECT_EQ(refusal("hidden = 64"), ":1: hidden = 64: must be a list of whole numbers, such as [64, 32]");
  EXPECT_EQ(refusal("seed = 1\nhidden = [64,\n\n \"32\"]"),
            ":4: hidden = \"32\": must be a list of whole numbers, such as [64, 32]");
  EXPECT_EQ(refusal("metrics = 3"), ":1: metrics = 3: must be a list of texts in quotes, such as [\"mae\"]");
  EXPECT_EQ(refusal("metrics = ['mae', 3]"), ":1: metrics = 3: must be a list of texts in quotes, such as [\"mae\"]");
  EXPECT_EQ(refusal("hidden = [[64]]"), ":1: hidden = [64]: must be a list of whole numbers, such as [64, 32]");
  EXPECT_EQ(refusal("columns = 3"), ":1: columns = 3: must be [[columns]] entries");
  EXPECT_EQ(refusal("columns = ['a']"), ":1: columns = 'a': must be [[columns]] entries");
  const std::string column_value = ": must be a text in quotes, a whole number, true, false, or a list of such";
  EXPECT_EQ(refusal("[[columns]]\nrows = 1.5\n"), ":2: rows = 1.5" + column_value);
  EXPECT_EQ(refusal("[[columns]]\nrows = 99999999999999999999\n"), ":2: rows = 99999999999999999999" + column_value);
  EXPECT_EQ(refusal("[[columns]]\nvocabulary = [['a']]\n"), ":2: vocabulary = [['a']]" + column_value);
  EXPECT_EQ(refusal("[[columns]]\nname = {a = 1}\n"), ":2: name = {a = 1}" + column_value);
  EXPECT_EQ(refusal("data = \"csv:a\\u0000b\""),
            ":1: data = \"csv:a\\u0000b\": must be without a character of value 0");
  EXPECT_NE(refusal("[[columns]]\nname = \"a\\u0000b\"").find("character of value 0"), std::string::npos);
}

TEST(JobFile, WhatIsNoTomlIsRefusedWithItsLine) {
  EXPECT_EQ(refusal("seed = 1\n\nseed = 2\n"), ":3: not valid TOML: value (\"seed\") already exists");
  EXPECT_EQ(refusal("\nseed 1\n").substr(0, 20), ":2: not valid TOML: ");
  EXPECT_EQ(refusal("seed = \n"), ":1: not valid TOML: missing value after key-value separator '='");
  EXPECT_EQ(refusal("header = tru"), ":1: not valid TOML: the next token is not a boolean");
  const std::vector<std::string> wrong = {"data = adult",
                                          "seed = 1 2",
                                          "seed = 01",
                                          "seed = ",
                                          "= 1",
                                          "data = \"adult",
                                          "data = 'adult",
                                          "data = \"\\q\"",
                                          "hidden = [1",
                                          "hidden = [1 2]",
                                          "seed = 1\r2",
                                          "[[columns]",
                                          "[columns",
                                          "hidden = 64, 32",
                                          "dense-lr = .5",
                                          "dense-lr = 1.",
                                          "seed: 1",
                                          "{\"seed\": 1}",
                                          "seed",
                                          "data = \"\x01\"",
                                          "seed = 1\n]",
                                          "x = {a = 1\n}",
                                          "data = \"\"\"adult\"",
                                          "\"",
                                          "'''",
                                          "[",
                                          "a.",
                                          "seed = 1e"};
  for (const std::string& text : wrong) {
    const std::string said = refusal(text);
    EXPECT_NE(said.find(": not valid TOML: "), std::string::npos) << text << "\n" << said;
    EXPECT_GT(said.size(), std::string(":1: not valid TOML: ").size()) << text;
  }
}

TEST(JobFile, WhatIsNoJobFileIsRefused) {
  const auto refused = [](const std::string& path) {
    const auto made = read_job_file(path, known());
    EXPECT_FALSE(made) << path;
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refused("/nowhere/job.toml"), "/nowhere/job.toml: No such file or directory; a job file is expected");
  EXPECT_EQ(refused(""), "'': No such file or directory; a job file is expected");
  EXPECT_EQ(refused("/"), "/: a directory: must be a job file");
  EXPECT_EQ(refused("/dev/zero"), "/dev/zero: not a regular file: must be a job file");
  for (const char* text : {"", "\n", " \t\r\n\n"})
    EXPECT_EQ(refusal(text), ": is empty; a job file has a setting a line");
  using namespace std::string_literals;
  EXPECT_EQ(refusal("seed = 1\n# \0\n"s), ":2: a byte of value 0: a job file is text");
  EXPECT_EQ(refusal("\x7f"
                    "ELF\x02\x01\x01\0\0\0"s),
            ":1: a byte of value 0: a job file is text");
  const std::string not_utf8 = ": a byte that is not UTF-8, which a job file has to be";
  EXPECT_EQ(refusal("seed = 1\ndata = 'caf\xe9'\n"), ":2" + not_utf8);
  EXPECT_EQ(refusal("# caf\xe9\n"), ":1" + not_utf8);
  EXPECT_EQ(refusal("\xff\xfes\x80"), ":1" + not_utf8);
  EXPECT_EQ(refusal(std::string(1'048'577, '\n') + "seed = 1\n"), ": 1048586 bytes: a job file has at most 1048576");
  std::string just_fits = "seed = 1\n";
  just_fits.append(1'048'576 - just_fits.size(), '\n');
  EXPECT_EQ(read(just_fits).size(), 1U);
}

TEST(JobFile, WhatTheParserCouldNotStandIsRefused) {
  const std::string deep = ": nested too deeply for a job file";
  EXPECT_EQ(refusal("\nx = " + std::string(500'000, '[')).substr(0, 14), ":2: a line of ");
  for (const char* one : {"[\n", "{a=\n", "{a={b=\n[\n", "a.a\n.a", "'['[\n"}) {
    std::string text = "x = ";
    for (int i = 0; i < 20'000; ++i) text += one;
    EXPECT_FALSE(refusal(text).empty());
  }
  EXPECT_EQ(refusal("x = " + std::string(33, '[') + std::string(33, ']')), ":1" + deep);
  std::string dotted = "a";
  for (int i = 0; i < 33; ++i) dotted += ".a";
  EXPECT_EQ(refusal(dotted + " = 1"), ":1" + deep);
  EXPECT_EQ(refusal("data = '" + std::string(16'384, 'a') + "'"),
            ":1: a line of 16393 bytes: must be at most 16384; break it");
  // Brackets and dots in strings and comments, and many values, are not nesting.
  const std::string many(100, '[');
  EXPECT_EQ(value_in("# " + many + "\ndata = 'csv:" + many + "'"), "csv:" + many);
  EXPECT_EQ(value_in("data = \"csv:\\\"" + many + "\\\\\""), "csv:\"" + many + "\\");
  EXPECT_EQ(value_in("data = '''csv:\n''" + many + "''''' # '"), "csv:\n''" + many + "''");
  EXPECT_EQ(value_in("data = \"\"\"csv:\\\"\"\"\\\"" + many + "\"\"\""),
            "csv:\"\"\""
            "\"" +
                many);
  EXPECT_EQ(value_in("data = 'csv:" + std::string(100, '.') + "'"), "csv:" + std::string(100, '.'));
  std::string columns;
  for (int i = 0; i < 100; ++i) columns += "[[columns]]\nname = ''\nvocabulary = []\n";
  EXPECT_EQ(read(columns).size(), 1U);
}

TEST(JobFile, AFaultIsToldAtTheLineItComesFrom) {
  const temporary_file file("\nbatch-size = 0\nhidden = []\n");
  const auto made = read_job_file(file.path(), known());
  ASSERT_TRUE(made);
  const auto told = [&](const std::string& message) {
    const fault what = located({fault_kind::run, message}, *made);
    EXPECT_EQ(what.kind, fault_kind::run);
    return what.message;
  };
  EXPECT_EQ(told("--batch-size 0: must be between 1 and 1000000"),
            file.path() + ":2: batch-size = 0: must be between 1 and 1000000");
  EXPECT_EQ(told("--hidden none: too narrow"), file.path() + ":3: hidden = none: too narrow");
  EXPECT_EQ(told("--hidden: layer 2: too narrow"), file.path() + ":3: hidden: layer 2: too narrow");
  for (const char* other :
       {"--seed 0: no", "--batch-sizes 0: no", "--batch-size, --hidden: no", "a --batch-size 0", ""}) {
    EXPECT_EQ(told(other), other);
  }
}

TEST(JobFile, FaultsOfParseJobBeginWithTheSetting) {
  const temporary_file file("data = 'synthetic'\nclasses = 3\nloss = 'bce-logits'\nbag = 0\n");
  auto made = read_job_file(file.path(), known());
  ASSERT_TRUE(made);
  const auto told = [&] {
    std::vector<setting> given;
    for (const auto& entry : made->entries) given.push_back(entry.given);
    const auto parsed = parse_job(given);
    EXPECT_FALSE(parsed);
    return parsed ? std::string() : located(parsed.error(), *made).message;
  };
  EXPECT_EQ(told(), file.path() + ":4: bag = 0: must be between 1 and 65536");
  std::erase_if(made->entries, [](const auto& entry) { return entry.given.first == "bag"; });
  EXPECT_EQ(told().substr(file.path().size(), 43), ":3: loss = bce-logits: needs --classes 2, n");
}

TEST(JobFile, ValuesArePrintedInTheirTypes) {
  EXPECT_EQ(printed({{"threads", "08"},
                     {"clip-norm", "0"},
                     {"dense-lr", "0.002"},
                     {"sparse-lr", "1e-07"},
                     {"hidden", "64,32"},
                     {"bottom-hidden", "none"},
                     {"metrics", "mae,f1"},
                     {"header", "true"},
                     {"seed", "18446744073709551615"},
                     {"data", "adult"}}),
            "data = \"adult\"\n"
            "seed = 18446744073709551615\n"
            "header = true\n"
            "hidden = [64, 32]\n"
            "bottom-hidden = []\n"
            "metrics = [\"mae\", \"f1\"]\n"
            "dense-lr = 0.002\n"
            "sparse-lr = 1e-07\n"
            "clip-norm = 0.0\n"
            "threads = 8\n");
}

TEST(JobFile, StringsArePrintedSuchThatTheyReadBack) {
  std::string every_byte = "csv:";
  for (int c = 1; c < 128; ++c) every_byte += static_cast<char>(c);
  for (const auto& text : {every_byte, std::string("\xc3\xa9\xf0\x9f\x98\x80"), std::string("\\u00e9"),
                           std::string("'''\"\"\""), std::string(" #[x] = 1 ")}) {
    const std::string toml = printed({{"data", text}});
    EXPECT_EQ(std::ranges::count(toml, '\n'), 1) << toml;
    EXPECT_EQ(value_in(toml), text);
  }
  EXPECT_EQ(printed({{"data", "a\"\\\n\x7f"}}), "data = \"a\\\"\\\\\\u000a\\u007f\"\n");
}

TEST(JobFile, NumbersArePrintedSuchThatTheyReadBack) {
  for (const double number : {0.1, 1.0 / 3, 1e22, 5e-324, 123456789.0, 1e-5, std::numeric_limits<double>::max()}) {
    const std::string text = value_in(printed({{"dense-lr", fmt::format("{}", number)}}));
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), number) << text;
    EXPECT_NE(text.find_first_of(".e"), std::string::npos) << "an integer: " << text;
  }
}

TEST(JobFile, ColumnsArePrintedAsEntriesAndLast) {
  const std::string json = R"([{"kind":"label","name":"y"},{"name":"c","rows":10,"vocabulary":["a","b"]}])";
  const std::string toml =
      "threads = 1\n"
      "\n[[columns]]\nname = \"y\"\nkind = \"label\"\n"
      "\n[[columns]]\nname = \"c\"\nrows = 10\nvocabulary = [\"a\", \"b\"]\n";
  EXPECT_EQ(printed({{"columns", json}, {"threads", "1"}}), toml);
  EXPECT_EQ(printed(read(toml)), toml);
}

TEST(JobFile, LongListsArePrintedOnSeveralLines) {
  std::string json = R"([{"name":"c","vocabulary":[)";
  for (int i = 0; i < 5000; ++i) json += fmt::format("{}\"value {}\"", i == 0 ? "" : ",", i);
  json += "]}]";
  const std::string toml = printed({{"columns", json}});
  EXPECT_EQ(read(toml), (std::vector<setting>{{"columns", json}}));
  EXPECT_EQ(printed(read(toml)), toml);
}

TEST(JobFile, ColumnsThatNoEntryCanSayArePrintedAsText) {
  for (const char* text : {"[", "3", "[]", "[3]", R"([{"name":null}])", R"([{"other":1}])", R"([{"rows":1.5}])",
                           R"([{"name":"a\u0000"}])", R"([{"vocabulary":[[1]]}])", "not JSON"}) {
    const std::string toml = printed({{"columns", text}});
    EXPECT_EQ(toml.substr(0, 11), "columns = \"") << toml;
    EXPECT_EQ(value_in(toml), text);
  }
}

TEST(JobFile, WhatIsNotUtf8CannotBePrinted) {
  for (const char* text : {"csv:caf\xe9", "\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80"}) {
    const auto made = print_job({{"data", text}}, known());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message.substr(0, 7), "--data ");
    EXPECT_NE(made.error().message.find("UTF-8"), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::model::job_file_test
