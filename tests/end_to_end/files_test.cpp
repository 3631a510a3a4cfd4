// Goal: a model is trained from files, with the same result however they are packed and however the program is set up;
// a faulty file ends the program with one line and exit code 2, whenever the fault is found. Method: small files in
// which the first category and the first number determine the label.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <regex>

#include "model/safetensors.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/value_of.hpp"

namespace troupe::end_to_end::files_test {
namespace {

std::string criteo_line(int row) {
  const int label = row % 3 == 0 ? 1 : 0;
  std::string line = fmt::format("{}\t{}", label, label * 40 + row % 7);
  for (int i = 0; i < 12; ++i) line += row % 5 == i % 5 ? "\t" : fmt::format("\t{}", row % 11 - 1);
  line += fmt::format("\t{:08x}", label * 1000 + row % 50);
  for (int i = 0; i < 25; ++i) line += row % 4 == i % 4 ? "\t" : fmt::format("\t{:08x}", row * 31 % (i + 3));
  return line + "\n";
}

std::string criteo_text(int rows) {
  std::string text;
  for (int row = 0; row < rows; ++row) text += criteo_line(row);
  return text;
}

std::string csv_text(int rows) {
  std::string text = "clicked,age,city,tags\r\n";
  for (int row = 0; row < rows; ++row) {
    const int label = row % 3 == 0 ? 1 : 0;
    text += fmt::format("{},{},\"c,{}\",{}\r\n", label, row % 9, label * 20 + row % 10, row % 2 == 0 ? "" : "a|b");
  }
  return text;
}

const std::string csv_columns =
    R"([{"name": "clicked", "kind": "label"}, {"name": "age", "kind": "numeric", "transform": "log1p"},)"
    R"( {"name": "city", "kind": "categorical"}, {"name": "tags", "kind": "multi", "vocabulary": ["a", "b", "c"]}])";

args criteo_job(const std::string& path) {
  return with(
      description_of("train --rows 1000 --dim 4 --batch-size 64 --test-fraction 0.2 --dense-lr 0.1 --sparse-lr 0.5"),
      {"--data", "criteo:" + path});
}

args csv_job(const std::string& path) {
  return with(description_of("train --rows 1000 --dim 4 --batch-size 64 --dense-lr 0.1 --sparse-lr 0.5"),
              {"--data", "csv:" + path, "--columns", csv_columns});
}

TEST(CriteoFiles, TeachAModel) {
  const std::string path = write_file("criteo.tsv", criteo_text(6000));
  const auto done = last_event(run(with(criteo_job(path), {"--epochs", "3", "--json"})), "done");
  ASSERT_FALSE(done.empty());
  EXPECT_GT(done.at("auc").to_number<double>(), 0.99);
  EXPECT_GT(done.at("accuracy").to_number<double>(), 0.95);
  EXPECT_NEAR(done.at("samples").to_number<double>(), 3 * 4800, 3 * 150);
}

TEST(CriteoFiles, GiveTheSameWeightsHoweverTheProgramIsSetUp) {
  const std::string path = write_file("criteo.tsv", criteo_text(3000));
  const auto job = with(criteo_job(path), {"--trainers", "3", "--shuffle-rows", "500", "--epochs", "2"});
  const std::string expected = digest_of(job);
  EXPECT_EQ(expected.size(), 16u);
  EXPECT_EQ(digest_of(with(job, {"--threads", "1"})), expected);
  EXPECT_EQ(digest_of(with(job, {"--servers", "3", "--threads", "4"})), expected);
  EXPECT_EQ(digest_of(with(job, {"--prepare", "3"})), expected);
  EXPECT_NE(digest_of(with(job, {"--seed", "2"})), expected);
}

TEST(CsvFiles, TeachAModel) {
  const std::string train = write_file("train.csv", csv_text(5000));
  const std::string test = write_file("test.csv", csv_text(500));
  const auto done = last_event(run(with(csv_job(train), {"--test-file", test, "--epochs", "3", "--json"})), "done");
  ASSERT_FALSE(done.empty());
  EXPECT_GT(done.at("auc").to_number<double>(), 0.99);
  EXPECT_EQ(done.at("samples"), 15000);
}

/// Makes rows `y,a,b` with y about 1 + 2 a - b, and adds their numbers to `numbers`.
std::string linear_text(std::size_t rows, std::vector<std::array<float, 3>>& numbers) {
  std::string text = "y,a,b\n";
  std::uint32_t state = 1;
  const auto next = [&state] {
    state = state * 1664525 + 1013904223;
    return static_cast<float>(state >> 24) / 64;  // at most two decimals, exact as text
  };
  for (std::size_t row = 0; row < rows; ++row) {
    const float a = next();
    const float b = next();
    numbers.push_back({1 + 2 * a - b + next(), a, b});
    text += fmt::format("{},{},{}\n", numbers.back()[0], a, b);
  }
  return text;
}

/// A job of one linear layer for the files of `linear_text`.
args linear_job(const std::string& train, const std::string& test) {
  const char* columns =
      R"([{"name": "y", "kind": "label"}, {"name": "a", "kind": "numeric"}, {"name": "b", "kind": "numeric"}])";
  const args files = {"train", "--data", "csv:" + train, "--test-file", test, "--columns", columns};
  return with(files, {"--loss", "mse", "--hidden", "none", "--servers", "0", "--trainers", "3", "--dense-lr", "0.01",
                      "--batch-size", "32"});
}

/// The mean squared error over `rows` of the linear layer in `file`.
double linear_error(const model::safetensors_file& file, const std::vector<std::array<float, 3>>& rows) {
  const auto weight = file.read_doubles("top.0.weight");
  const auto bias = file.read_doubles("top.0.bias");
  if (!weight || !bias || weight->size() != 2 || bias->size() != 1) {
    ADD_FAILURE() << "these are not the weights of a linear layer with two inputs";
    return 0;
  }
  double sum = 0;
  for (const auto& [y, a, b] : rows) {
    const double error = weight->at(0) * a + weight->at(1) * b + bias->at(0) - y;
    sum += error * error;
  }
  return sum / static_cast<double>(rows.size());
}

// The network is one linear layer, whose weights are in a checkpoint: so its errors can be computed independently.
TEST(CsvFiles, TellTheErrorsOfPredictedNumbers) {
  std::vector<std::array<float, 3>> rows;
  const std::string train = write_file("linear.csv", linear_text(1000, rows));
  rows.clear();
  // More rows than three trainers' first chunks, and not equally many for each.
  const std::string test = write_file("linear-test.csv", linear_text(4000, rows));
  const std::string folder = write_file("linear-run", "");
  const std::string exported = write_file("linear.safetensors", "");
  std::filesystem::remove(folder);
  const auto job = linear_job(train, test);
  const outcome result = run(with(job, {"--save", folder, "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(run({"checkpoint", "export", folder, "-o", exported, "--force", "--weights-only"}).exit_code, 0);
  const auto file = value_of(model::safetensors_file::open(exported));
  const double expected = linear_error(file, rows);
  const auto events = json_lines(result.out);
  for (const char* name : {"epoch", "done"}) {
    const auto& event = events.at(name == std::string("done") ? events.size() - 1 : 0);
    ASSERT_EQ(event.at("event"), name);
    EXPECT_NEAR(event.at("test_loss").to_number<double>() / expected, 1, 1e-5) << name;
    EXPECT_DOUBLE_EQ(event.at("rmse").to_number<double>(), std::sqrt(event.at("test_loss").to_number<double>()))
        << name;
    EXPECT_TRUE(event.at("auc").is_null());
  }
  // The sums are added in rank order, independent of arrival.
  EXPECT_EQ(last_event(run(with(job, {"--threads", "1", "--json"})), "done").at("test_loss"),
            events.back().at("test_loss"));
  EXPECT_TRUE(last_event(run(with(job, {"--eval-every", "0", "--json"})), "done").at("test_loss").is_null());
  const outcome text = run(job);
  EXPECT_TRUE(std::regex_search(text.out, std::regex("loss  test loss      RMSE  samples/s"))) << text.out;
  EXPECT_TRUE(std::regex_search(text.out, std::regex("\nRMSE +[0-9.]+\n"))) << text.out;
  for (const std::string& line : lines_of(text.out)) EXPECT_LE(line.size(), 80u) << line;
}

/// The error text after the file's name.
std::string fault_of(const args& arguments, const std::string& path) {
  const std::string line = expect_error(run(arguments), 2);
  const auto place = line.find(path);
  EXPECT_NE(place, std::string::npos) << line;
  return place == std::string::npos ? line : line.substr(place + path.size());
}

/// Editors and `echo >>` leave blank lines at the end.
TEST(CsvFiles, TellOfBlankLinesOnceAndTrainAsWithout) {
  const std::string text = csv_text(500);
  const auto train = [](const std::string& path, const args& more) {
    return run(with(csv_job(path), with({"--test-file", path, "--epochs", "3", "--json"}, more)));
  };
  const outcome plain = train(write_file("no-blank.csv", text), {});
  const std::string path = write_file("blank.csv", text + "\r\n\n");
  const std::string note = path + ": 2 blank lines passed over, the first of them line 502";
  for (const args& more : {args(), {"--processes"}}) {
    const outcome blank = train(path, more);
    EXPECT_EQ(last_event(blank, "done").at("weights_digest"), last_event(plain, "done").at("weights_digest"));
    const auto told = blank.err.find(note);
    EXPECT_NE(told, blank.err.npos) << blank.err;
    EXPECT_EQ(blank.err.find("passed over", told + note.size()), blank.err.npos) << blank.err;
  }
  EXPECT_EQ(plain.err.find("passed over"), plain.err.npos);
  EXPECT_EQ(train(path, {"--quiet"}).err.find("passed over"), std::string::npos);
}

TEST(BadFiles, AreRefusedBeforeTraining) {
  const std::string empty = write_file("empty.tsv", "");
  EXPECT_EQ(fault_of(criteo_job(empty), empty), ": empty: must have at least one row");
  EXPECT_EQ(fault_of(criteo_job("/no/such/file"), "/no/such/file"),
            ": No such file or directory; a data file is expected");
  EXPECT_EQ(fault_of(criteo_job("/tmp"), "/tmp"), ": a directory: must be a data file");
  const std::string few = write_file("few.tsv", criteo_text(60));
  EXPECT_EQ(expect_error(run({"train", "--data", "criteo:" + few}), 2),
            "troupe: error: --batch-size 256: must be at most 60, the training rows of " + few);
  const std::string header = write_file("header.csv", "clicked,age,town,tags\n1,2,3,4\n");
  EXPECT_EQ(fault_of(csv_job(header), header), " line 1: no column is called city; the nearest is age");
}

/// Faults that the first pass can see are found before training.
TEST(BadFiles, WithTooFewColumnsAtTheirEndAreRefusedBeforeTraining) {
  const std::string path = write_file("short.tsv", criteo_text(40'000) + "1\t2\n");
  const outcome refused = run(with(criteo_job(path), {"--shuffle-rows", "1000", "--json"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_FINDS(refused.err, path + " line 40001: 2 columns in 1\\x092: must be 40");
  EXPECT_EQ(refused.out.find("\"event\":\"epoch\""), refused.out.npos) << refused.out;
}

/// Tens of thousands of rows, so that the bad row comes long after training has begun.
TEST(BadFiles, EndARunThatHasBegunWithTheirPlace) {
  std::string text = criteo_text(40'000);
  const auto place = text.find('\n', text.size() - 2000) + 1;
  const auto line = static_cast<std::size_t>(std::count(text.begin(), text.begin() + place, '\n')) + 1;
  text.replace(place, text.find('\t', place + 2) - place, "1\tx7");
  const std::string path = write_file("bad.tsv", text);
  const std::string fault = fault_of(with(criteo_job(path), {"--shuffle-rows", "1000", "--trainers", "2"}), path);
  EXPECT_EQ(fault, fmt::format(" line {}: column 2 (I1): x7: must be a whole number of 64 bits, or empty", line));
}

}  // namespace
}  // namespace troupe::end_to_end::files_test
