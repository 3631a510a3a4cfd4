// Goal: processes that are stopped together continue together, as after Ctrl-Z and fg, and a process that was stopped
// itself does not declare others dead; a leading process that was stopped alone is named, not its members; and a
// process whose handler never returns still ends after its leader. Method: SIGSTOP and SIGCONT to process groups and
// processes, SIGKILL, handlers that hang.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>
#include <thread>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::stopped_processes_test {
namespace {

const args two_each = {"--servers", "2", "--trainers", "2"};

// -- stopped together -----------------------------------------------------------------------

class StoppedTogetherTiming : public testing::TestWithParam<args> {};

TEST_P(StoppedTogetherTiming, ProcessesGoOnTogether) {
  const args job = with({"--json", "--data", "tutorial", "--epochs", "300", "--seed", "7"}, two_each);
  const std::string expected = digest_of(run(with({"train"}, job)));
  launch in_own_group;
  in_own_group.program = "/usr/bin/setsid";
  program running(with(with({TROUPE_PROGRAM, "train", "--processes", "--dead-after", "1"}, GetParam()), job),
                  in_own_group);
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  ASSERT_EQ(kill(-running.process(), SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::seconds(4));  // the tested stop: longer than all timeouts
  ASSERT_EQ(kill(-running.process(), SIGCONT), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), expected) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 1) << ended.err;
}

INSTANTIATE_TEST_SUITE_P(With, StoppedTogetherTiming,
                         testing::Values(args{"--restarts", "0"}, args{"--restarts", "1"}));

// -- a leader that is stopped alone ------------------------------------------------------------

TEST(StoppedLeader, IsNamedInPlaceOfItsMembers) {
  program running(
      with(with({"train", "--json", "--processes", "--restarts", "0", "--dead-after", "1"}, endless), two_each));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  ASSERT_EQ(kill(running.process(), SIGSTOP), 0);
  for (const char* who : {"server 0", "server 1", "trainer 0", "trainer 1"})
    ASSERT_TRUE(running.wait_for_error(fmt::format("troupe {}: error: the master", who))) << running.error();
  ASSERT_EQ(kill(running.process(), SIGCONT), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(ended.exit_code, 1);
  const std::string line = line_with(ended.err, "troupe: error: ");
  const std::regex expected(fmt::format(R"(the process that leads the run \(pid {}\) was stopped for \d+\.\d s in )"
                                        R"(step \d+, and its members left it; a longer --dead-after)",
                                        running.process()));
  EXPECT_TRUE(std::regex_search(line, expected)) << line;
  EXPECT_EQ(line.find("died"), std::string::npos) << line;
}

TEST(StoppedLeader, IsJudgedByDeadAfterByItsSupervisor) {
  const model::checkpoint_folder folder;
  program running(with(with({"train", "--json", "--processes", "--dead-after", "1", "--save", folder.path(),
                             "--checkpoint-every", "50", "--restarts", "1"},
                            endless),
                       two_each));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\"")) << running.error();
  const pid_t leader = leader_of(running.process());
  ASSERT_EQ(kill(leader, SIGSTOP), 0);
  ASSERT_TRUE(running.wait_for_output(
      fmt::format("the process that leads the run (pid {}) was stopped for 1 s (--dead-after)", leader)))
      << running.error();
  running.send(SIGTERM);
  EXPECT_TRUE(running.finish().in_time);
}

// -- a member that is stopped alone ------------------------------------------------------------

TEST(StoppedMember, SaysThatItWasStoppedItself) {
  gathered_run several(with(endless, {"--servers", "1", "--trainers", "2"}), {"--dead-after", "1"});
  several.join_as("server");
  several.join_as("trainer");
  const pid_t stopped = several.join_as("trainer").process();
  ASSERT_TRUE(several.master().wait_for_output(trains)) << several.master().error();
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  EXPECT_EQ(several.master().finish().exit_code, 1);
  ASSERT_EQ(kill(stopped, SIGCONT), 0);
  const std::string line = line_with(several.finish_members(1).back().err, "troupe: error: ");
  EXPECT_TRUE(std::regex_search(
      line, std::regex(fmt::format(R"(the master \(\S+\) took this process for dead in step \d+: it \(pid {}\) was )"
                                   R"(stopped for \d+\.\d s; a longer --dead-after lets it wait)",
                                   stopped))))
      << line;
}

// -- handlers that never return ------------------------------------------------------------------

/// A run of the faulty program in which a handler of trainer 0 hangs, and a way to detect that it does.
class HungHandler : public testing::Test {
 protected:
  launch with_fault() const {
    launch how = with_token();
    how.program = TROUPE_FAULTY_PROGRAM;
    how.environment.emplace_back("TROUPE_FAULTS", fmt::format("hang actor=trainer-0-sends at=20 once={}", mark()));
    return how;
  }
  std::string mark() const { return folder_.path() + "-hangs"; }
  bool hangs() const {
    return comes_true([this] { return std::filesystem::exists(mark()); });
  }
  void TearDown() override { std::filesystem::remove(mark()); }

  static void expect_own_end(const std::string& text) {
    EXPECT_TRUE(std::regex_search(text, std::regex(R"(error: the master is gone, and a handler of this process \(pid )"
                                                   R"(\d+\) has not returned within 2 s: the process ends itself)")))
        << text;
  }

  const model::checkpoint_folder folder_;
};

const args one_thread = {"--threads", "1", "--dead-after", "1"};

TEST_F(HungHandler, OfAProcessEndsWithItWhenItsLeaderIsKilled) {
  program running(
      with(with({"train", "--json", "--processes", "--restarts", "0"}, one_thread), with(endless, two_each)),
      with_fault());
  ASSERT_TRUE(hangs()) << running.error();
  running.send(SIGKILL);
  const outcome ended = running.finish();  // waits for all processes
  ASSERT_TRUE(ended.in_time);
  expect_own_end(ended.err);
}

TEST_F(HungHandler, OfAMemberEndsWithItWhenTheMasterIsKilledThoughItIsToldToStop) {
  gathered_run several(with(endless, {"--servers", "1", "--trainers", "1"}), {"--dead-after", "1"}, with_fault());
  several.join_as("server");
  program& member = several.join({"--as", "trainer", "--threads", "1"});
  ASSERT_TRUE(hangs()) << member.error();
  several.master().send(SIGKILL);
  member.send(SIGTERM);
  const outcome ended = member.finish();
  ASSERT_TRUE(ended.in_time);
  EXPECT_EQ(ended.exit_code, 1);
  expect_own_end(ended.err);
}

TEST_F(HungHandler, OfAProcessEndsWithItAndCostsASupervisedRunAnAttempt) {
  const args job = with({"--json", "--data", "tutorial", "--epochs", "20", "--seed", "7"}, two_each);
  const std::string expected = digest_of(run(with({"train"}, job)));
  program running(
      with(with({"train", "--processes", "--save", folder_.path(), "--checkpoint-every", "6", "--restarts", "2"},
                one_thread),
           job),
      with_fault());
  ASSERT_TRUE(hangs()) << running.error();
  ASSERT_EQ(kill(leader_of(running.process()), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), expected) << ended.err;
  expect_own_end(ended.err);
}

}  // namespace
}  // namespace troupe::end_to_end::stopped_processes_test
