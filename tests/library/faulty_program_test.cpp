// The reports of a user's program about its own faults: it hangs, crashes, dies, returns early, or its processes never
// join.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>

#include "tests/expect_finds.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/record/recording.hpp"

namespace troupe::faulty_program_test {
namespace {

/// Returns the output of the program with that fault.
std::string said_by(const std::string& fault, const std::string& options, const std::filesystem::path& folder) {
  const std::string command =
      "TMPDIR=" + folder.string() + " " + TROUPE_FAULTY_PROGRAM + " --fault " + fault + " " + options + " 2>&1";
  std::FILE* const from = ::popen(command.c_str(), "r");
  if (from == nullptr) return "cannot be started";
  std::string text;
  for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from)) text += static_cast<char>(c);
  ::pclose(from);
  return text;
}

/// The others wait for its gradient in an all-reduce (with a replica) or at the server (with a table only).
class FaultyProgramTiming : public testing::TestWithParam<const char*> {};

TEST_P(FaultyProgramTiming, NamesTheTrainerThatHangsInItsOwnFunction) {
  const trace::temporary_folder folder;
  const std::string said = said_by("hang", std::string("--processes --request-timeout 5 ") + GetParam(), folder.path());
  EXPECT_FINDS(said, "; trainer 1 (host ");
  EXPECT_FINDS(said, " has not returned from its own function or loop since step 10\n");
  EXPECT_FINDS(said, "--request-timeout allows more");
  EXPECT_EQ(said.find("::"), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Trains, FaultyProgramTiming, testing::Values("", "--replicates"),
                         [](const auto& one) { return *one.param == 0 ? "ATable" : "ATableAndAReplica"; });

/// The trainer that waits for the method is not the late one.
TEST(SlowMethodTiming, NamesTheMethodThatDoesNotComeBackAndItsServer) {
  const trace::temporary_folder folder;
  const std::string said = said_by("slow-method", "--processes --request-timeout 5", folder.path());
  EXPECT_FINDS(said, ": sleeper.sleep on server 0: server 0 (host ");
  EXPECT_FINDS(said, " did not answer call within 5 s; --request-timeout allows more; server 0 (host ");
  EXPECT_FINDS(said, " is at work and handles no message");
  EXPECT_EQ(said.find("own function or loop"), std::string::npos) << said;
}

TEST(FaultyProgram, SaysWhereItsTraceIsWhenItCrashes) {
  const trace::temporary_folder folder;
  const std::string said = said_by("crash", "", folder.path());
  const std::string text = "its trace is kept: 'troupe trace blocked ";
  const std::size_t at = said.find(text);
  if (at == said.npos && said.find("Sanitizer") != said.npos) GTEST_SKIP() << "the sanitizer has the signal";
  ASSERT_NE(at, said.npos) << said;
  const std::size_t begin = at + text.size();
  const std::filesystem::path kept = said.substr(begin, said.find('\'', begin) - begin);
  ASSERT_TRUE(std::filesystem::is_directory(kept)) << kept;
  EXPECT_FALSE(std::filesystem::is_empty(kept)) << kept;
}

class ReturningTrainer : public testing::TestWithParam<const char*> {};

/// Trainer 0 notices it, and ends with the error.
TEST_P(ReturningTrainer, IsNamedByTheTraceThatIsKept) {
  const trace::temporary_folder folder;
  const std::filesystem::path traces = folder.path() / "traces";
  const std::string said =
      said_by("returns", "--replicates --trace-dir " + traces.string() + " " + GetParam(), folder.path());
  EXPECT_FINDS(said, "trainer 1 has returned after step 10; ");
  const auto run = trace::read_recording({.paths = {traces}});
  ASSERT_TRUE(run) << run.error().message;
  const std::string verdict = analysis::find_blocked(*run).verdict;
  EXPECT_TRUE(verdict.starts_with("the run has ended with an error: trainer 0")) << verdict;
  EXPECT_FINDS(verdict, "trainer 1 has returned after step 10; ");
}

INSTANTIATE_TEST_SUITE_P(Of, ReturningTrainer, testing::Values("", "--processes"),
                         [](const auto& one) { return *one.param == 0 ? "OneProcess" : "SeveralProcesses"; });

/// Progress is reported a few times a second; the ten steps take less time than that.
TEST(FaultyProgram, SaysInWhichStepAProcessDiedAndHowManyAreLost) {
  const trace::temporary_folder folder;
  const std::string saving = "--save " + (folder.path() / "saved").string() + " --checkpoint-every 100";
  const std::string said = said_by("dies", "--replicates --processes --restarts 1 " + saving, folder.path());
  const std::regex lost(
      "attempt 2 .* from step 0 after [^,]*, 1[01] steps lost: trainer 1 \\([^)]*\\) died in step 1[01]: ");
  EXPECT_TRUE(std::regex_search(said, lost)) << said;
}

/// Its processes are killed before they can flush their buffers.
TEST(FaultyProgram, LosesNothingThatWasPrintedIfItDoesNotExit) {
  const trace::temporary_folder folder;
  const std::string said = said_by("never-exits", "--processes", folder.path());
  EXPECT_FINDS(said, "trainer 0 is done\n");
  EXPECT_FINDS(said, "trainer 1 is done\n");
}

TEST(FaultyProgram, CountsEveryAttemptOnce) {
  const trace::temporary_folder folder;
  const std::string said = said_by("never-joins", "--processes --restarts 3", folder.path());
  EXPECT_FINDS(said, "ended with exit code 3");
  EXPECT_FINDS(said, "4 attempts failed without a new checkpoint, --restarts 3 allows no other");
}

}  // namespace
}  // namespace troupe::faulty_program_test
