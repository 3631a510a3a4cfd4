// One signal ends a user's program, whatever it does: code that does not return is named, with exit code 1.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <regex>
#include <string>

#include "tests/expect_finds.hpp"
#include "tests/trace/temporary_folder.hpp"

namespace troupe::stop_grace_test {
namespace {

constexpr const char* overdue = "stubborn_program: error: not ended within 5 s after the stop request: ";

/// Returns the output of the program that is stubborn in that way, after one SIGTERM once it has reached that point,
/// then `status` and its exit code.
std::string said_by(const std::string& way, const std::string& options) {
  const trace::temporary_folder folder;
  const std::string mark = (folder.path() / "mark").string();
  // (A shell makes background commands ignore SIGINT.)
  const std::string command = "TMPDIR=" + folder.path().string() + " " + TROUPE_STUBBORN_PROGRAM + " --way " + way +
                              " --mark " + mark + " " + options + " 2>&1 & while kill -0 $! && ! ls " + mark +
                              "; do sleep 0.05; done >/dev/null 2>&1; kill -TERM $!; wait $!; echo status $?";
  std::FILE* const from = ::popen(command.c_str(), "r");
  if (from == nullptr) return "cannot be started";
  std::string text;
  for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from)) text += static_cast<char>(c);
  ::pclose(from);
  return text;
}

void expect_named(const std::string& said, const std::string& culprit) {
  EXPECT_FINDS(said, overdue + culprit);
  EXPECT_FINDS(said, "\nstatus 1\n");
}

void expect_matches(const std::string& said, const std::string& culprit) {
  EXPECT_TRUE(std::regex_search(said, std::regex(overdue + culprit))) << said;
  EXPECT_FINDS(said, "\nstatus 1\n");
}

TEST(StopGraceTiming, EndsAFunctionThatComputesOrBlocksAndNamesIt) {
  for (const std::string way : {"spins", "sleeps"}) {
    const std::string said = said_by(way, "");
    expect_named(said, "trainer 1 has not returned from its function, after step 10; ");
    EXPECT_FINDS(said, "a function notices a stop request where it awaits");
    EXPECT_FINDS(said, "the trace is kept: 'troupe trace blocked ");
  }
}

/// Its process is killed, which closes the pipe of its output.
TEST(StopGraceTiming, EndsAFunctionOfAnotherProcessAndNamesItsRank) {
  expect_matches(said_by("sleeps", "--processes"),
                 R"(trainer 1 \([^)]*pid \d+\) has not returned from its own function or loop)");
}

/// The master has no thread left to report what others wait for.
TEST(StopGraceTiming, NamesTheFunctionThatHasTheOnlyThread) {
  expect_named(said_by("spins", "--threads 1"), "trainer 1 has not returned from its function, after step 10; ");
}

TEST(StopGraceTiming, EndsAMethodOfAnObjectAndNamesIt) {
  expect_named(said_by("method", ""), "server 0 has not returned from spinner.spin; ");
  expect_named(said_by("batched", ""), "server 0 has not returned from spinner.score; ");
  expect_matches(said_by("method", "--processes"), R"(server 0 \([^)]*pid \d+\) is at work and handles no message )"
                                                   R"(\(trainer 0 waits for spinner\.spin\))");
}

TEST(StopGraceTiming, NamesWhoWaitsForWhatNeverComesAndWhoGoesOn) {
  expect_named(said_by("waits", ""), "trainer 0 waits in its function, before its first step; ");
  expect_named(said_by("goes-on", ""), "trainer 0 continues with its function, before its first step; ");
}

TEST(StopGraceTiming, EndsAClientAndAMainThatGoesOnAfterItsRun) {
  expect_named(said_by("client", ""), "client 0 has not returned from its function; ");
  expect_named(said_by("main", ""), "the program's main has not returned\n");
}

TEST(StopGraceTiming, IsNotForAProgramThatEndsInTime) {
  for (const std::string options : {"", "--processes"}) {
    const std::string said = said_by("returns", options);
    EXPECT_FINDS(said, "\nstatus 0\n");
    EXPECT_EQ(said.find("error"), std::string::npos) << said;
  }
}

/// Also with checkpoints: the last one is complete.
TEST(StopGraceTiming, LeavesTheLastCheckpointWhole) {
  const trace::temporary_folder folder;
  const std::string saving = "--save " + (folder.path() / "saved").string() + " --checkpoint-every 5 --restarts 1";
  expect_named(said_by("sleeps", saving), "trainer 1 has not returned from its function, after step 10; ");
  const std::string resumed = said_by("returns", saving + " --resume " + (folder.path() / "saved").string());
  EXPECT_FINDS(resumed, "\nstatus 0\n");
  EXPECT_EQ(resumed.find("error"), std::string::npos) << resumed;
}

}  // namespace
}  // namespace troupe::stop_grace_test
