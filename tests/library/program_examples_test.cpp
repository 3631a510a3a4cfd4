// The examples that are whole programs: the tutorial, compared with the program's own run of it, also killed and
// resumed; an own data set; and a network for images.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "tests/expect_finds.hpp"
#include "tests/library/example_output.hpp"
#include "tests/library/killed_example.hpp"
#include "tests/trace/temporary_folder.hpp"

namespace troupe::program_examples_test {
namespace {

namespace fs = std::filesystem;
using test::output_of;

std::string digest_of_tutorial(const std::string& seed) {
  return nodes::run_job(model::parse_job({{"data", "tutorial"}, {"seed", seed}}).value(), {}, nullptr)
      .value()
      .weights_digest;
}

std::string digest_in(const std::string& output) { return output.substr(0, output.find(' ')); }

TEST(ProgramExamples, HybridHasTheDigestOfTheProgram) {
  const std::string expected = digest_of_tutorial("1");
  EXPECT_EQ(digest_in(output_of("hybrid")), expected);
  EXPECT_EQ(digest_in(output_of("hybrid", "--processes")), expected);
  EXPECT_EQ(digest_in(output_of("hybrid", "--servers 2 --threads 1")), expected);
  EXPECT_EQ(digest_in(output_of("hybrid", "--processes --seed 7")), digest_of_tutorial("7"));
}

TEST(ProgramExamples, HybridKilledTenTimesHasTheDigestOfTheUnbrokenRun) {
  const trace::temporary_folder folder;
  const fs::path saved = folder.path() / "run";
  int kills = 0;
  while (kills < 10 && test::run_and_kill("hybrid", saved)) ++kills;
  EXPECT_GT(kills, 0);
  EXPECT_EQ(digest_in(output_of("hybrid", "--resume " + saved.string())), digest_of_tutorial("1"));
}

/// Replaces all white space by single spaces.
std::string in_one_line(const std::string& text) {
  std::istringstream from(text);
  std::string line;
  for (std::string word; from >> word;) line += word + " ";
  return line;
}

TEST(ProgramExamples, HelpHasTheWordsOfAProgram) {
  const std::string help = in_one_line(output_of("hybrid", "--help"));
  EXPECT_FINDS(help, "--resume DIR continue the run of the newest checkpoint in this folder ");
  EXPECT_FINDS(help,
               "--device auto|cpu|cuda what the trainers' modules compute on; auto is CUDA devices if there are "
               "any (default: cpu)");
  EXPECT_NE(
      help.find("--prepare N threads of a process that make its trainers' batches ahead (trainer::prefetch), 0 to "
                "1024 (default: those that are idle)"),
      std::string::npos)
      << help;
  EXPECT_EQ(help.find("--epochs"), std::string::npos) << help;
}

TEST(ProgramExamples, OwnDataLearnsItsArms) {
  const std::string output = output_of("own_data");
  std::array<double, 2> right{};
  ASSERT_EQ(std::sscanf(output.c_str(), "right: %lf before, %lf after", &right[0], &right[1]), 2) << output;
  EXPECT_LT(right[0], 0.8);
  EXPECT_GT(right[1], 0.95);
  EXPECT_EQ(output_of("own_data", "--processes"), output);
  EXPECT_EQ(output_of("own_data", "--threads 1"), output);
  EXPECT_EQ(output_of("own_data", "--prepare 0"), output);
  EXPECT_EQ(output_of("own_data", "--processes --prepare 2"), output);
}

TEST(ProgramExamples, ImageClassifierLearnsItsStripes) {
  const std::string output = output_of("image_classifier");
  std::array<double, 2> right{};
  ASSERT_EQ(std::sscanf(output.c_str(), "right: %lf before, %lf after", &right[0], &right[1]), 2) << output;
  EXPECT_LT(right[0], 0.6);
  EXPECT_GT(right[1], 0.95);
  EXPECT_EQ(output_of("image_classifier", "--processes"), output);
  EXPECT_EQ(output_of("image_classifier", "--threads 1"), output);
}

}  // namespace
}  // namespace troupe::program_examples_test
