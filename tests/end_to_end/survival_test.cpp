// Goal: a run goes on when processes are lost, whichever and whenever, and has the weights of a run that lost none.
// Method: SIGKILL and SIGSTOP of each kind of process, by hand and at messages of each actor; digests are compared.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::survival_test {
namespace {

/// 3,000 steps of little work, in epochs of ten.
const words job = {"--data", "tutorial", "--epochs", "300", "--seed", "7"};
const words two_each = {"--servers", "2", "--trainers", "2"};

const std::string& unbroken_digest() {
  static const std::string digest = digest_of(run(with(with({"train", "--json"}, job), two_each)));
  return digest;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> all;
  std::istringstream list(read_file(fmt::format("/proc/{0}/task/{0}/children", parent)));
  for (pid_t child = 0; list >> child;) all.push_back(child);
  return all;
}

/// The process that leads the attempt under way, of a run whose supervisor is `parent`.
pid_t leader_of(pid_t parent) {
  for (const pid_t child : children_of(parent)) {
    const words command = proc_words(child, "cmdline");
    if (std::ranges::find(command, "--role") == command.end()) return child;
  }
  ADD_FAILURE() << "nobody leads";
  return 0;
}

std::vector<boost::json::object> events_of(const outcome& from, std::string_view name) {
  std::vector<boost::json::object> found;
  for (boost::json::object& one : json_lines(from.out))
    if (one.at("event").as_string() == name) found.push_back(std::move(one));
  return found;
}

/// Every epoch is told once, in order.
void expect_epochs(const outcome& from, std::uint64_t count) {
  std::uint64_t next = 1;
  for (const auto& one : events_of(from, "epoch")) EXPECT_EQ(one.at("epoch").to_number<std::uint64_t>(), next++);
  EXPECT_EQ(next, count + 1);
}

class Survival : public testing::Test {
 protected:
  words saving(const char* every = "100") const { return {"--save", folder_.path(), "--checkpoint-every", every}; }

  const model::checkpoint_folder folder_;
};

struct victim {
  const char* who;  ///< empty: the process that leads
  int signal;
};

class LostOne : public Survival, public testing::WithParamInterface<victim> {};

TEST_P(LostOne, IsReplacedAndTheWeightsAreThoseOfAnUnbrokenRun) {
  words all = with(with({"train", "--json", "--processes", "--dead-after", "1"}, with(job, two_each)), saving());
  program running(all);
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  const std::string who = GetParam().who;
  const pid_t lost = who.empty() ? leader_of(running.process()) : process_of(running, who);
  ASSERT_EQ(kill(lost, GetParam().signal), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), unbroken_digest()) << ended.err;
  expect_epochs(ended, 300);
  const auto attempts = events_of(ended, "attempt");
  ASSERT_EQ(attempts.size(), 1u) << ended.out;
  EXPECT_EQ(attempts[0].at("attempt").to_number<int>(), 2);
  EXPECT_EQ(attempts[0].at("from_step").to_number<int>() % 100, 0);
  const auto done = last_event(ended, "done");
  EXPECT_EQ(done.at("attempts").to_number<int>(), 2);
  EXPECT_EQ(done.at("steps").to_number<int>(), 3000);
  if (GetParam().signal != SIGKILL) return;
  const std::string words = fmt::format("(pid {}) was ended by signal 9", lost);
  EXPECT_NE(std::string(attempts[0].at("lost").as_string()).find(words), std::string::npos) << ended.out;
}

std::string name_of_victim(const testing::TestParamInfo<victim>& one) {
  std::string name = one.param.who[0] == 0 ? "leader" : one.param.who;
  std::erase(name, ' ');
  return name + (one.param.signal == SIGKILL ? "Killed" : "Stopped");
}

INSTANTIATE_TEST_SUITE_P(Of, LostOne,
                         testing::Values(victim{"server 0", SIGKILL}, victim{"server 1", SIGSTOP},
                                         victim{"trainer 0", SIGKILL}, victim{"trainer 1", SIGSTOP},
                                         victim{"", SIGKILL}),
                         name_of_victim);

TEST_F(Survival, OfARunInOneProcess) {
  program running(with(with({"train", "--json"}, with(job, two_each)), saving()));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(leader_of(running.process()), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), unbroken_digest());
  expect_epochs(ended, 300);
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 2);
}

TEST_F(Survival, GivesUpWhenAttemptsMakeNoProgress) {
  launch how;
  how.program = TROUPE_FAULTY_PROGRAM;
  how.environment = {{"TROUPE_FAULTS", "die actor=server-1 at=150"}};  // in each of its processes
  const outcome ended =
      run(with(with({"train", "--json", "--processes", "--restarts", "2"}, with(job, two_each)), saving("1000")), how);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(events_of(ended, "attempt").size(), 2u) << ended.out;
  const std::string line = line_with(ended.err, "troupe: error: ");
  EXPECT_NE(line.find("server 1 (pid "), std::string::npos) << line;
  EXPECT_NE(line.find("3 attempts failed without a new checkpoint, --restarts 2 allows no other; go on from the last "
                      "checkpoint: troupe train --processes"),
            std::string::npos)
      << line;
}

TEST_F(Survival, EndsAtOnceByAnErrorThatWouldComeBack) {
  const outcome ended = run(with(
      with({"train", "--json", "--processes", "--dense-lr", "1000000", "--sparse-lr", "1000000"}, with(job, two_each)),
      saving("1000")));
  EXPECT_EQ(ended.exit_code, 1) << ended.err;
  EXPECT_TRUE(events_of(ended, "attempt").empty()) << ended.out;
}

TEST_F(Survival, ASupervisorTakesItsProcessesWithIt) {
  program running(with(with({"train", "--json", "--processes"}, with(endless, two_each)), saving()));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  const std::vector<pid_t> children = children_of(running.process());
  EXPECT_EQ(children.size(), 5u);
  running.send(SIGKILL);
  running.finish();  // of the last process
  for (const pid_t one : children) EXPECT_TRUE(comes_true([one] { return kill(one, 0) != 0; })) << one;
}

TEST_F(Survival, AStopReachesTheRun) {
  program running(with(with({"train", "--json", "--processes"}, with(endless, two_each)), saving()));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  running.send(SIGTERM);
  const outcome ended = running.finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_TRUE(last_event(ended, "done").at("stopped").as_bool());
}

TEST_F(Survival, OfManyKillsOfAnyProcess) {
  program running(with(with({"train", "--json", "--processes", "--restarts", "100"}, with(job, two_each)),
                       {"--save", folder_.path(), "--checkpoint-every", "50"}));
  for (int kills = 1; kills <= 5; ++kills) {
    ASSERT_TRUE(running.wait_for_output(fmt::format("\"event\":\"checkpoint\",\"step\":{},", 500 * kills)))
        << running.error();
    const std::vector<pid_t> children = children_of(running.process());
    ASSERT_FALSE(children.empty());
    kill(children[static_cast<std::size_t>(kills) % children.size()], SIGKILL);
  }
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), unbroken_digest()) << ended.err;
  expect_epochs(ended, 300);
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 6);
}

// -- that have joined from elsewhere ------------------------------------------------

TEST_F(Survival, OfAGatheredRunWithANewMemberInALostOnesPlace) {
  gathered_run several(with(with(job, two_each), saving()));
  several.join_all(2, 2);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << several.master().error();
  const pid_t lost = process_of(several.master(), "server 1");
  ASSERT_EQ(kill(lost, SIGKILL), 0);
  several.set_aside(lost);
  several.join_as("server");
  EXPECT_EQ(several.finish(), unbroken_digest());
}

TEST_F(Survival, OfAGatheredRunWhoseRanksOthersHost) {
  gathered_run several(with(with(job, {"--servers", "2", "--trainers", "4", "--rejoin-timeout", "0.5"}), saving()));
  several.join_all(2, 4);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << several.master().error();
  for (const char* who : {"trainer 1", "trainer 2", "server 0"}) {
    const pid_t lost = process_of(several.master(), who);
    ASSERT_EQ(kill(lost, SIGKILL), 0);
    several.set_aside(lost);
  }
  const std::string expected =
      digest_of(run(with(with({"train", "--json"}, job), {"--servers", "1", "--trainers", "4"})));
  EXPECT_EQ(several.finish(), expected);
}

TEST_F(Survival, OfAGatheredRunThatLosesItsMaster) {
  gathered_run several(with(with(job, two_each), saving()));
  several.join_all(2, 2);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << several.master().error();
  ASSERT_EQ(kill(leader_of(several.master().process()), SIGKILL), 0);
  EXPECT_EQ(several.finish(), unbroken_digest());
}

// -- at each message ------------------------------------------------------------------

class DeathAtAMessage : public Survival, public testing::WithParamInterface<const char*> {};

/// TROUPE_ALL_DEATHS: at every message, not at a few.
TEST_P(DeathAtAMessage, ChangesNoBitOfTheWeights) {
  const words short_job = {"--data", "tutorial", "--steps", "24", "--seed", "7", "--servers", "2", "--trainers", "2"};
  const std::string expected = digest_of(run(with({"train", "--json"}, short_job)));
  const std::string actor = GetParam();
  const int stride = std::getenv("TROUPE_ALL_DEATHS") != nullptr ? 1 : 31;
  for (int at = 1;; at += stride) {
    const model::checkpoint_folder folder;
    const std::string once = folder.path() + "-died";
    launch how;
    how.program = TROUPE_FAULTY_PROGRAM;
    how.environment = {{"TROUPE_FAULTS", fmt::format("die actor={} at={} once={}", actor, at, once)}};
    const outcome ended = run(
        with(with({"train", "--json", "--processes"}, short_job), {"--save", folder.path(), "--checkpoint-every", "6"}),
        how);
    const bool died = std::filesystem::remove(once);
    ASSERT_EQ(digest_of(ended), expected) << actor << " died at message " << at << ":\n" << ended.err << ended.out;
    EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>() > 1, died) << "message " << at;
    if (!died) return;  // it handles fewer messages
  }
}

std::string name_of_actor(const testing::TestParamInfo<const char*>& one) {
  std::string name = one.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Of, DeathAtAMessage,
                         testing::Values("master", "server-0", "server-1", "trainer-0", "trainer-1", "allreduce"),
                         name_of_actor);

}  // namespace
}  // namespace troupe::end_to_end::survival_test
