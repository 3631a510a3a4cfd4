// Goal: a job file is equivalent to options, and the output of --print-job runs the same job. Method: runs and prints
// jobs both ways, and tries wrong files.

#include <gtest/gtest.h>

#include "tests/end_to_end/program.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::job_file_test {
namespace {

std::string printed(const args& arguments) {
  const outcome result = run(with(arguments, {"--print-job"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

const args synthetic = description_of(
    "train --data synthetic --steps 12 --rows 300 --tables 2 --dim 4 --bag 3 --id-skew zipf:1.1 --hidden 16,8 "
    "--trainers 3 --batch-size 20 --seed 17 --dense-optimizer sgd:momentum=0.9,nesterov=true --dense-lr 0.012345 "
    "--servers 2 --sparse-reduce sum");

TEST(PrintedJob, IsPrintedByAMasterTooWhichListensToNobody) {
  const std::string master = printed({"master", "--listen", "127.0.0.1:0", "--trainers", "3"});
  EXPECT_NE(master.find("trainers = 3\n"), std::string::npos) << master;
}

TEST(PrintedJob, HasAPageThatIsReadAgain) {
  const std::string page = printed({"train", "--page"});
  EXPECT_NE(page.find("page = 0\n"), std::string::npos) << page;
  EXPECT_EQ(printed({"train", write_file("page.toml", page)}), page);
}

TEST(JobFile, HasStepsThatGivenEpochsOverride) {
  const std::string file = write_file("steps.toml", "data = \"tutorial\"\nsteps = 7\n");
  const auto steps = [&](const args& more) {
    return last_event(run(with({"train", file, "--json", "--quiet"}, more)), "done").at("steps").to_number<int>();
  };
  EXPECT_EQ(steps({}), 7);
  EXPECT_NE(steps({"--epochs", "2"}), 7);
  EXPECT_EQ(steps({"--epochs", "2"}), 2 * steps({"--epochs", "1"}));
  EXPECT_EQ(steps({"--epochs", "2", "--steps", "5"}), 5);
}

TEST(PrintedJob, RunsTheSameJob) {
  for (const auto& arguments : {synthetic, args{"train", "--data", "tutorial", "--epochs", "5"},
                                args{"train", "--epochs", "1", "--hidden", "none", "--loss", "mse"}}) {
    const std::string file = write_file("printed.toml", printed(arguments));
    EXPECT_EQ(printed({"train", file}), read_file(file));
    const std::string digest = digest_of(arguments);
    EXPECT_NE(digest, "");
    EXPECT_EQ(digest_of({"train", file}), digest);
  }
}

TEST(PrintedJob, OfEachDataSetIsPrintedAgainAsItIs) {
  for (const char* data :
       {"adult", "tutorial", "synthetic", "criteo:a b\\ \"c\"\t\xc3\xa9.gz", "mnist", "idx:a b,\"c\"", "replay:x"}) {
    const std::string file = write_file("printed.toml", printed({"train", "--data", data}));
    EXPECT_EQ(printed({"train", file}), read_file(file)) << data;
  }
}

TEST(PrintedJob, HasTheOptionsOfTheRunThatWereGiven) {
  const std::string job = printed({"train", "--data", "tutorial"});
  EXPECT_EQ(job.rfind("data = \"tutorial\"\ntrainers = 2\n", 0), 0u) << job;
  for (const char* name : {"threads", "device", "metrics-csv", "tensorboard", "quiet"}) {
    EXPECT_EQ(job.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(printed({"train", "--data", "tutorial", "--threads", "3", "--metrics-csv", "/nowhere/m.csv",
                     "--tensorboard", "runs", "--device", "cpu", "--quiet"}),
            job + "threads = 3\ndevice = \"cpu\"\nmetrics-csv = \"/nowhere/m.csv\"\ntensorboard = \"runs\"\n");
}

TEST(PrintedJob, IsNoJson) {
  const outcome result = run({"train", "--print-job", "--json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(last_event(result, "error").at("code"), "input");
}

TEST(JobFile, SaysTheSameAsOptions) {
  const std::string file = write_file("job.toml",
                                      "data = 'synthetic'\nsteps = 12\nrows = 300\ntables = 2\ndim = 4\nbag = 3\n"
                                      "id-skew = 'zipf:1.1'\nhidden = [16, 8]\ntrainers = 3\nbatch-size = 20\n"
                                      "seed = 17\ndense-optimizer = 'sgd:momentum=0.9,nesterov=true'\n"
                                      "dense-lr = 0.012345\nservers = 2\nsparse-reduce = 'sum'\nthreads = 2\n");
  EXPECT_EQ(digest_of({"train", file}), digest_of(synthetic));
}

TEST(JobFile, IsOverriddenByOptions) {
  const std::string file =
      write_file("job.toml", "data = 'tutorial'\nsteps = 12\nseed = 5\nthreads = 0\nservers = 2000\n");
  EXPECT_EQ(digest_of({"train", file, "--seed", "7", "--threads", "1", "--servers", "1"}),
            digest_of({"train", "--data", "tutorial", "--steps", "12", "--seed", "7"}));
  EXPECT_EQ(digest_of({"train", "--seed", "7", "--threads", "1", "--servers", "1", file}),
            digest_of({"train", "--data", "tutorial", "--steps", "12", "--seed", "7"}));
}

TEST(JobFile, TheExampleIsTheDefaultJob) {
  const std::string example = TROUPE_EXAMPLES "/adult.toml";
  EXPECT_EQ(printed({"train", example}), printed({"train"}));
  EXPECT_EQ(digest_of({"train", example, "--epochs", "1"}), digest_of({"train", "--epochs", "1"}));
}

struct wrong_file {
  std::string content;
  /// The error text after the file's name.
  std::string said;
};

void PrintTo(const wrong_file& file, std::ostream* out) { *out << file.said; }

class WrongJobFile : public testing::TestWithParam<wrong_file> {};

TEST_P(WrongJobFile, IsRefusedInOneLineThatNamesTheLine) {
  const std::string file = write_file("wrong.toml", GetParam().content);
  const std::string expected = "troupe: error: " + file + GetParam().said;
  EXPECT_EQ(expect_error(run({"train", file}), 2).substr(0, expected.size()), expected);
  EXPECT_EQ(expect_error(run({"train", "--print-job", file}), 2).substr(0, expected.size()), expected);
  const outcome result = run({"train", "--json", file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(last_event(result, "error").at("code"), "input");
}

std::vector<wrong_file> wrong_files() {
  std::vector<wrong_file> files = {
      {"seed = 1\n\nbathc-size = 3\n", ":3: bathc-size: unknown setting; the nearest is batch-size"},
      {"batch-size = true\n", ":1: batch-size = true: must be a whole number"},
      {"seed = 1\nbatch-size = 0\n", ":2: batch-size = 0: must be between 1 and 1000000"},
      {"data = 'synthetic'\nclasses = 3\nloss = 'bce-logits'\n", ":3: loss = bce-logits: needs --classes 2"},
      {"data = 'tutorial'\nbatch-size = 3\n", ":2: batch-size = 3: tutorial has no such setting"},
      {"seed = 1\nthreads = 2000\n", ":2: threads = 2000: must be a whole number between 1 and 1024"},
      {"device = 'gpu'\n", ":1: device = gpu: must be auto, cpu or cuda"},
      {"seed = 99999999999999999999\n", ":1: seed = 99999999999999999999: must be between 0 and"},
      {"seed = 1\nseed = 2\n", ":2: not valid TOML: "},
      {"seed 1\n", ":1: not valid TOML: "},
      {"[job]\nseed = 1\n", ":1: job: a job file has no such section"},
      {"", ": is empty"},
      {std::string("seed = 1\n\0", 10), ":2: a byte of value 0"}};
  files.push_back({"devices = 'x'\n", ":1: devices = x: must be numbers of devices"});
  files.push_back({"checkpoint-every = 20\n", ":1: checkpoint-every = 20: needs --save DIR"});
  files.push_back({"save = 'x'\ncheckpoint-every = 0\n", ":2: checkpoint-every = 0: must be a whole number between 1"});
  files.push_back({"checkpoint-seconds = 20\n", ":1: checkpoint-seconds = 20: needs --save DIR"});
  files.push_back({"save = 'x'\ncheckpoint-seconds = 'often'\n", ":2: checkpoint-seconds = 'often': must be a number"});
  files.push_back({"save = 'x'\ncheckpoint-seconds = 0\n", ":2: checkpoint-seconds = 0: must be a number of seconds"});
  files.push_back({"save = 'x'\ncheckpoint-seconds = 5\nmtbf = 9.5\n", ":3: mtbf = 9.5: is for --checkpoint-seconds"});
  files.push_back({"save = 'x'\ncheckpoint-seconds = 'auto'\nmtbf = 0\n", ":3: mtbf = 0: must be a number of seconds"});
  files.push_back({"checkpoint-memory = 5\n", ":1: checkpoint-memory = 5: needs --save DIR"});
  files.push_back(
      {"save = 'x'\ncheckpoint-memory = -1\n", ":2: checkpoint-memory = -1: must be a whole number of bytes"});
  files.push_back({"resume = '/nowhere'\n", ":1: resume = /nowhere: No such file or directory"});
  return files;
}

INSTANTIATE_TEST_SUITE_P(JobFile, WrongJobFile, testing::ValuesIn(wrong_files()));

// Only a run finds these faults.
TEST(JobFile, IsNamedByTheFaultsOfARun) {
  const std::string csv = write_file("wrong.toml", "\nmetrics-csv = '/nowhere/m.csv'\n");
  EXPECT_NE(expect_error(run({"train", csv}), 2).find(csv + ":2: metrics-csv = /nowhere/m.csv: No such file"),
            std::string::npos);
}

TEST(JobFile, IsNotNamedForWhatOptionsSay) {
  const std::string file = write_file("job.toml", "seed = 1\nbatch-size = 3\n");
  EXPECT_EQ(expect_error(run({"train", file, "--batch-size", "0"}), 2).find("troupe: error: --batch-size 0: "), 0u);
}

TEST(JobFile, ThatIsADirectoryIsRefused) {
  EXPECT_NE(expect_error(run({"train", "/"}), 2).find("/: a directory"), std::string::npos);
}

}  // namespace
}  // namespace troupe::end_to_end::job_file_test
