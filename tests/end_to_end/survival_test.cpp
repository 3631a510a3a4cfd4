// Goal: a run continues when any processes are lost at any time, and has the weights of an undisturbed run. Method:
// SIGKILL and SIGSTOP of each kind of process, by hand and at messages of each actor; digests are compared.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::survival_test {
namespace {

/// 3,000 steps of little work, in epochs of ten.
const args job = {"--data", "tutorial", "--epochs", "300", "--seed", "7"};
const args two_each = {"--servers", "2", "--trainers", "2"};

const std::string& unbroken_digest() {
  static const std::string digest = digest_of(run(with(with({"train", "--json"}, job), two_each)));
  return digest;
}

/// Waits for a run that was asked to stop; returns its event `done`.
boost::json::object expect_stopped(program& running) {
  const outcome ended = running.finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const auto done = last_event(ended, "done");
  EXPECT_TRUE(done.at("stopped").as_bool());
  return done;
}

class Survival : public testing::Test {
 protected:
  args saving(const char* every = "100") const { return {"--save", folder_.path(), "--checkpoint-every", every}; }

  const model::checkpoint_folder folder_;
};

struct victim {
  const char* who;  ///< empty: the leading process
  int signal;
};

class LostOne : public Survival, public testing::WithParamInterface<victim> {};

TEST_P(LostOne, IsReplacedAndTheWeightsAreThoseOfAnUnbrokenRun) {
  args all = with(with({"train", "--json", "--processes", "--dead-after", "1"}, with(job, two_each)), saving());
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
  const std::string args = fmt::format("(pid {}) was ended by signal 9", lost);
  EXPECT_FINDS(std::string(attempts[0].at("lost").as_string()), args) << ended.out;
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
  // No remaining process knows how far the lost one had come.
  EXPECT_TRUE(std::regex_search(ended.err, std::regex("attempt 2 .*, at least \\d+ steps? lost: "))) << ended.err;
}

TEST_F(Survival, LeavesTracesOfItsAttemptsInOneFolder) {
  const model::checkpoint_folder traces;
  program running(with(with({"train", "--json", "--processes", "--trace", "full", "--trace-dir", traces.path()},
                            with(job, {"--servers", "1", "--trainers", "1"})),
                       saving()));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(process_of(running, "server 0"), SIGKILL), 0);
  EXPECT_EQ(running.finish().exit_code, 0);
  const outcome newest = run({"trace", "summary", traces.path(), "--json"});
  ASSERT_EQ(newest.exit_code, 0) << newest.err;
  EXPECT_FINDS(newest.err, "of 2 attempts at this run, this is the newest, 2; --attempt K reads another");
  const auto told = last_event(newest, "summary");
  const auto& attempts = told.at("attempts").as_array();
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_NE(attempts[0].at("ended_by").as_string().find("server 0 (pid "), boost::json::string::npos) << newest.out;
  EXPECT_EQ(attempts[0].at("from_step").to_number<int>(), 0);
  EXPECT_GE(attempts[0].at("last_step").to_number<int>(), 200);
  EXPECT_EQ(attempts[1].at("from_step").to_number<int>() % 100, 0);
  EXPECT_GE(attempts[1].at("from_step").to_number<int>(), 200);
  EXPECT_EQ(attempts[1].at("last_step").to_number<int>(), 3000);
  const outcome first = run({"trace", "summary", traces.path(), "--json", "--attempt", "1"});
  EXPECT_EQ(last_event(first, "summary").at("run"), attempts[0].at("run"));
  EXPECT_EQ(run({"trace", "check", traces.path(), "--attempt", "2"}).exit_code, 0);
  const std::string line = expect_error(run({"trace", "summary", traces.path(), "--attempt", "3"}), 2);
  EXPECT_FINDS(line, "--attempt 3: not among these files, which are of attempt 1, 2");
}

TEST_F(Survival, CanBeLookedIntoWhileItGoesOn) {
  const model::checkpoint_folder temporary;
  launch how;
  how.environment = {{"TMPDIR", temporary.path()}, {"TROUPE_TRACE_DIR", ""}, {"TROUPE_TRACE", "ring"}};
  program running(
      with(with({"train", "--json", "--processes"}, with(endless, {"--servers", "1", "--trainers", "1"})), saving()),
      how);
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  const pid_t lost = process_of(running, "server 0");
  ASSERT_EQ(kill(lost, SIGKILL), 0);
  ASSERT_TRUE(running.wait_for_output("\"event\":\"attempt\",\"attempt\":2,")) << running.error();
  const std::string traces = fmt::format("{}/troupe-{}", temporary.path(), geteuid());
  const auto folders = std::filesystem::directory_iterator(traces);
  EXPECT_EQ(std::distance(begin(folders), end(folders)), 1) << "one for all attempts";
  const auto told = last_event(run({"trace", "summary", traces, "--json"}), "summary");
  const auto& attempts = told.at("attempts").as_array();
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_NE(attempts[0].at("ended_by").as_string().find(fmt::format("pid {})", lost)), boost::json::string::npos);
  EXPECT_EQ(told.at("run"), attempts[1].at("run"));
  const outcome first = run({"trace", "blocked", traces, "--attempt", "1"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  running.send(SIGTERM);
  EXPECT_EQ(running.finish().exit_code, 0);
}

TEST_F(Survival, LeavesNoTracesOfAttemptsThatEndedWell) {
  const args changing = {"--data", "synthetic", "--rows",    "2000", "--steps",       "100",
                         "--seed", "7",         "--elastic", "1:4",  "--memberships", "0:1,30:2,60:1"};
  for (int i = 0; i < 5; ++i) {
    const model::checkpoint_folder traces;
    const model::checkpoint_folder saved;
    const outcome ended = run(with(with({"train", "--json", "--processes", "--save", saved.path()}, changing),
                                   {"--trace", "ring", "--trace-dir", traces.path()}));
    EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 3) << ended.err;
    EXPECT_TRUE(std::filesystem::is_empty(traces.path())) << ended.err;
  }
}

TEST_F(Survival, RefusesToWaitForLostOnesIfItEndsWithThem) {
  EXPECT_EQ(expect_error(run({"train", "--data", "tutorial", "--rejoin-timeout", "5"}), 2),
            "troupe: error: --rejoin-timeout 5: this run ends with its first loss; add --restarts N, or leave it out");
}

TEST_F(Survival, SaysWhereLossesChangeTheWeights) {
  const args short_job = {"train", "--data", "tutorial", "--epochs", "1", "--checkpoint-every", "5"};
  const auto said = [&](const char* consistency) {
    const model::checkpoint_folder folder;
    return run(with(short_job, {"--consistency", consistency, "--save", folder.path()})).err;
  };
  EXPECT_FINDS(said("ssp:2"), "--consistency ssp:2: it is not promised that after a loss");
  EXPECT_FINDS(said("async"), "--consistency async: it is not promised that after a loss");
  EXPECT_EQ(said("sync").find("promised"), std::string::npos);
}

TEST_F(Survival, OfAMasterIsAskedForByName) {
  const std::string line =
      expect_error(run({"master", "--listen", "127.0.0.1:0", "--supervised", "--restarts", "0"}, with_token()), 2);
  EXPECT_FINDS(line, "--restarts 0: --supervised lets a run continue after losses");
  gathered_run several(with(job, {"--supervised", "--servers", "1", "--trainers", "1"}));
  several.join_all(1, 1);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"epoch\",\"epoch\":3,")) << several.master().error();
  ASSERT_EQ(kill(leader_of(several.master().process()), SIGKILL), 0);
  const std::string expected = digest_of(run(with({"train", "--json", "--servers", "1", "--trainers", "1"}, job)));
  EXPECT_EQ(several.finish(), expected);
}

TEST_F(Survival, GivesUpWhenAttemptsMakeNoProgress) {
  launch how;
  how.program = TROUPE_FAULTY_PROGRAM;
  how.environment = {{"TROUPE_FAULTS", "die actor=server-1 at=150"}};  // for each of its processes
  const outcome ended =
      run(with(with({"train", "--json", "--processes", "--restarts", "2"}, with(job, two_each)), saving("1000")), how);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(events_of(ended, "attempt").size(), 2u) << ended.out;
  const std::string line = line_with(ended.err, "troupe: error: ");
  EXPECT_FINDS(line, "server 1 (pid ");
  EXPECT_FINDS(line,
               "3 attempts failed without a new checkpoint, --restarts 2 allows no other; continue from the last "
               "checkpoint: troupe train --processes");
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
  running.finish();  // waits for all processes
  for (const pid_t one : children) EXPECT_TRUE(comes_true([one] { return kill(one, 0) != 0; })) << one;
}

TEST_F(Survival, AStopReachesTheRun) {
  program running(with(with({"train", "--json", "--processes"}, with(endless, two_each)), saving()));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  running.send(SIGTERM);
  expect_stopped(running);
}

TEST_F(Survival, AStopOfTheWholeProcessGroupCountsOnce) {
  program running(with(with({"train", "--json"}, endless), saving()));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  ASSERT_EQ(kill(leader_of(running.process()), SIGINT), 0);
  running.send(SIGINT);
  expect_stopped(running);
}

TEST_F(Survival, AStopIsHeardByTheNextAttemptIfTheOneBeforeHasEnded) {
  program running(with(with({"train", "--json"}, endless), saving()));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(leader_of(running.process()), SIGKILL), 0);
  running.send(SIGTERM);
  const auto done = expect_stopped(running);
  EXPECT_EQ(done.at("attempts").to_number<int>(), 2);
  EXPECT_GE(done.at("steps").to_number<int>(), 200);
}

TEST_F(Survival, DoesNotGoOnWithOtherRows) {
  const std::string rows = folder_.path() + "/rows.csv";
  const auto write = [](const std::string& path, int first) {
    std::ofstream file(path);
    file << "label,x\n";
    for (int i = 0; i < 1000; ++i) file << i % 2 << ',' << first + i << '\n';
  };
  write(rows, 0);
  program running({"train", "--json", "--data", "csv:" + rows, "--columns",
                   R"([{"name":"label","kind":"label"},{"name":"x","kind":"categorical"}])", "--rows", "1000",
                   "--epochs", "1000000000", "--restarts", "3"});
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  write(rows + ".new", 1);
  std::filesystem::rename(rows + ".new", rows);
  ASSERT_EQ(kill(leader_of(running.process()), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_FINDS(ended.err, "is not what it was: the rows differ from those that the attempt before had read");
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

// -- members that joined from elsewhere ---------------------------------------------

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

TEST_F(Survival, OfAGatheredRunThatIsStoppedBeforeAllAreThereAgain) {
  gathered_run several(with(with(endless, {"--servers", "1", "--trainers", "2"}), saving()));
  several.join_all(1, 2);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << several.master().error();
  const pid_t lost = process_of(several.master(), "trainer 1");
  ASSERT_EQ(kill(lost, SIGKILL), 0);
  several.set_aside(lost);
  const auto is_waiting = [&] {
    return run({"status", several.where()}, with_token()).out.find("waiting for members") != std::string::npos;
  };
  ASSERT_TRUE(comes_true(is_waiting));
  EXPECT_EQ(run({"stop", several.where()}, with_token()).exit_code, 0);
  const outcome ended = several.master().finish();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const auto done = last_event(ended, "done");
  const auto steps = done.at("steps").to_number<std::uint64_t>();
  EXPECT_GE(steps, 200u);
  EXPECT_EQ(steps % 100, 0u) << "those of a checkpoint";
  EXPECT_GT(done.at("samples").to_number<std::uint64_t>(), steps);
  EXPECT_LE(done.at("goodput").to_number<double>(), 1);
  several.finish_members(0);
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

/// TROUPE_ALL_DEATHS: at every message, not only at a few.
TEST_P(DeathAtAMessage, ChangesNoBitOfTheWeights) {
  const args short_job = {"--data", "tutorial", "--steps", "24", "--seed", "7", "--servers", "2", "--trainers", "2"};
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
    if (!died) return;  // the actor handles fewer messages than `at`
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
