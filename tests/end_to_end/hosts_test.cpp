// Goal: `troupe master` and `troupe join` form one run from processes started anywhere, in any order, and say plainly
// why a process cannot join. Method: real masters and members on this machine.

#include <gtest/gtest.h>

#include <csignal>

#include "tests/end_to_end/several.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::hosts_test {
namespace {

const args short_job = {"--data", "tutorial", "--steps", "25", "--seed", "7"};
const args one_server_two_trainers = {"--servers", "1", "--trainers", "2"};

args job_of(const args& options) { return with(options, one_server_two_trainers); }

std::string whole_digest() { return digest_of(run(with({"train", "--json"}, job_of(short_job)))); }

/// An address of this machine without a listener.
std::string free_address() { return links::to_string(links::raw_server().address()); }

args join_to(const std::string& where, const args& more) { return with({"join", where, "--as", "trainer"}, more); }

TEST(Hosts, EndWithTheDigestOfOneProcess) {
  gathered_run several(job_of(short_job));
  several.join_all(1, 2);
  EXPECT_EQ(several.finish(), whole_digest());
}

TEST(Hosts, ReportWhoTheyAreWhileTheyWait) {
  gathered_run several(job_of(short_job));
  program& trainer = several.join_as("trainer");
  EXPECT_TRUE(trainer.wait_for_error("troupe: joined as trainer 0; waiting for the others")) << trainer.error();
  EXPECT_EQ(process_of(several.master(), "trainer 0"), trainer.process());
  several.join_all(1, 1);
  several.finish();
}

TEST(Hosts, MayHaveSeveralTrainersInOneProcess) {
  gathered_run several({"--data", "synthetic", "--rows", "300", "--servers", "2", "--trainers", "3", "--steps", "15"});
  several.join({"--as", "trainer", "--count", "2"});
  several.join({"--as", "server", "--count", "2"});
  several.join_as("trainer");
  EXPECT_EQ(several.finish(), digest_of(run({"train", "--json", "--data", "synthetic", "--rows", "300", "--servers",
                                             "2", "--trainers", "3", "--steps", "15"})));
}

TEST(Hosts, MayComeBeforeTheMaster) {
  const std::string where = free_address();
  program trainer(join_to(where, {}), with_token());
  ASSERT_TRUE(trainer.wait_for_error("trying again")) << trainer.error();
  program master({"master", "--listen", where, "--json", "--data", "tutorial", "--steps", "5", "--trainers", "1"},
                 with_token());
  program server({"join", where, "--as", "server"}, with_token());
  EXPECT_FALSE(digest_of(master.finish()).empty());
  EXPECT_EQ(trainer.finish().exit_code, 0);
  EXPECT_EQ(server.finish().exit_code, 0);
}

TEST(Hosts, GoOnWithWhatProcessesSaved) {
  const model::checkpoint_folder folder;
  const auto steps = [](const std::string& count) { return args{"--data", "tutorial", "--steps", count}; };
  const std::string whole = digest_of(run(with({"train", "--json"}, job_of(steps("40")))));
  digest_of(run(with({"train", "--json", "--processes", "--save", folder.path()}, job_of(steps("15")))));
  gathered_run several(with(job_of(steps("40")), {"--resume", folder.path(), "--save", folder.path()}));
  several.join_all(1, 2);
  EXPECT_EQ(several.finish(), whole);
}

// -- members that are refused -----------------------------------------------------

TEST(Hosts, HaveNamesOfOneShortLine) {
  for (const std::string& name : {std::string(65, 'x'), std::string("a\nb"), std::string("a\x1b[31m"),
                                  std::string("a\u009bm"), std::string("a\u202eb")}) {
    const std::string line =
        expect_error(run({"join", "127.0.0.1:1", "--as", "server", "--name", name}, with_token()), 2);
    EXPECT_FINDS(line, "must be one line of at most 64 bytes");
  }
}

TEST(Hosts, ThatHaveANameAlreadyTakenAreRefused) {
  gathered_run several(job_of(short_job));
  program& first = several.join({"--as", "trainer", "--name", "anna"});
  ASSERT_TRUE(first.wait_for_error("joined as"));
  const outcome second = run(join_to(several.where(), {"--name", "anna"}), with_token());
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_FINDS(second.err, "--name anna: is taken by trainer 0 (host ");
  several.join({"--as", "trainer", "--name", "berta"});
  several.join_as("server");
  EXPECT_FALSE(several.finish().empty());
}

TEST(Hosts, ThatAreOneTooManyAreRefused) {
  gathered_run several(job_of(short_job));
  ASSERT_TRUE(several.join({"--as", "trainer", "--count", "2"}).wait_for_error("joined as"));
  const outcome third = run(join_to(several.where(), {}), with_token());
  EXPECT_EQ(third.exit_code, 2);
  EXPECT_FINDS(third.err, "1 trainer offered: the job asks for 2, 2 have joined");
  EXPECT_TRUE(several.master().wait_for_error("was not accepted: 1 trainer offered")) << several.master().error();
  several.join_as("server");
  EXPECT_FALSE(several.finish().empty());
}

TEST(Hosts, ThatComeWhenTheRunHasBegunAreRefused) {
  gathered_run several(job_of(endless));
  several.join_all(1, 2);
  ASSERT_TRUE(several.master().wait_for_output(trains));
  const outcome late = run(join_to(several.where(), {}), with_token());
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_FINDS(late.err, "the run has begun (step ");
  several.master().send(SIGTERM);
  several.finish();
}

TEST(Hosts, ThatBelieveInAnotherJobAreToldTheFirstDifference) {
  // The last line spells the master's f32 in an older way.
  const std::string same =
      write_file("same.toml", "data = \"tutorial\"\nsteps = 25\nseed = 7\ntrainers = 2\nwire-dtype = \"fp32\"\n");
  const std::string other = write_file("other.toml", "data = \"tutorial\"\nsteps = 25\nseed = 8\ntrainers = 2\n");
  gathered_run several(job_of(short_job));
  const outcome refused = run(join_to(several.where(), {other}), with_token());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_FINDS(refused.err, "the job differs from the master's: ");
  EXPECT_FINDS(refused.err, "seed");
  EXPECT_TRUE(several.master().wait_for_error("was not accepted: the job differs")) << several.master().error();
  EXPECT_FINDS(line_with(several.master().error(), "the job differs"), "seed");
  several.join({"--as", "trainer", "--count", "2", same});
  several.join_as("server");
  EXPECT_FALSE(several.finish().empty());
}

TEST(Hosts, HaveOneOfTwoRoles) {
  const std::string line = expect_error(run({"join", "127.0.0.1:1", "--as", "worker"}, with_token()), 2);
  EXPECT_FINDS(line, "--as worker: must be server or trainer");
  const std::string other = expect_error(run(join_to("127.0.0.1:1", {"--server-device", "cpu"}), with_token()), 2);
  EXPECT_FINDS(other, "--server-device is for servers");
}

TEST(Hosts, CannotTakeWhatNoMessageCouldCarry) {
  const std::string line = expect_error(
      run({"master", "--listen", "127.0.0.1:0", "--data", "synthetic", "--hidden", "16384,16384"}, with_token()), 2);
  EXPECT_FINDS(line, "--hidden: the dense weights have ");
  EXPECT_FINDS(line, " the limit is 1073741824; use smaller or fewer layers");
}

TEST(Hosts, CannotSaveWhatNoMessageCouldCarry) {
  const model::checkpoint_folder folder;
  const args wide = {"master", "--listen",    "127.0.0.1:0",       "--data", "synthetic", "--hidden", "12288,12288",
                     "--save", folder.path(), "--dense-optimizer", "adam"};
  const std::string line = expect_error(run(wide, with_token()), 2);
  EXPECT_FINDS(line, "--hidden: the dense weights and their optimizer's state");
}

TEST(Hosts, GiveUpOnAMasterThatDoesNotCome) {
  const std::string where = free_address();
  const outcome alone = run(join_to(where, {"--join-timeout", "0.3"}), with_token());
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_FINDS(alone.err, "master " + where);
  EXPECT_FINDS(alone.err, "tried for 0.3 s (--join-timeout)");
  EXPECT_EQ(alone.err.find(where + ": " + where), std::string::npos) << alone.err;
}

TEST(Hosts, ThatOthersCannotReachAreNamedWithWhatToDo) {
  gathered_run several(job_of(short_job), {"--dead-after", "1"});
  several.join({"--as", "server", "--advertise", "127.0.0.2"});  // listens at 127.0.0.1
  several.join_all(0, 2);
  const outcome failed = several.master().finish();
  EXPECT_EQ(failed.exit_code, 1);
  const std::string line = line_with(failed.err, "error");
  EXPECT_FINDS(line, "server 0 (host ");
  EXPECT_FINDS(line, "cannot be reached at 127.0.0.2:");
  EXPECT_EQ(line.find("127.0.0.2:"), line.rfind("127.0.0.2:")) << line;
  EXPECT_FINDS(line, "--advertise");
  for (const outcome& one : several.finish_members(1)) line_with(one.err, "cannot be reached at 127.0.0.2:");
}

TEST(Hosts, TakeAPortThatIsFree) {
  gathered_run several(job_of(short_job));
  const std::string line = expect_error(run({"master", "--listen", several.where()}, with_token()), 2);
  EXPECT_FINDS(line, several.where());
  EXPECT_FINDS(line, "the port is in use");
}

// -- members that leave before the run begins -------------------------------------

TEST(WaitingHosts, ThatDieLeaveTheirPlaceToOthers) {
  gathered_run several(job_of(short_job));
  for (const std::string role : {"trainer", "server"}) {
    program& first = several.join({"--as", role, "--name", "anna"});
    const pid_t process = process_of(several.master(), role + " 0");
    first.send(SIGKILL);
    first.finish();
    ASSERT_TRUE(several.master().wait_for_error("pid " + std::to_string(process) + ") has left: "))
        << several.master().error();
  }
  several.forget_members();
  several.join({"--as", "trainer", "--name", "anna"});
  several.join_all(1, 1);
  EXPECT_EQ(several.finish(), whole_digest());
}

TEST(WaitingHosts, HearThatTheMasterIsGone) {
  gathered_run several(job_of(short_job));
  ASSERT_TRUE(several.join_as("trainer").wait_for_error("joined as"));
  ASSERT_TRUE(several.join_as("server").wait_for_error("joined as"));
  several.master().send(SIGKILL);
  several.master().finish();
  for (const outcome& one : several.finish_members(1))
    line_with(one.err, "error: the master (" + several.where() + ") is gone");
}

TEST(WaitingHosts, EndWellWhenTheMasterIsStopped) {
  gathered_run several(job_of(short_job));
  ASSERT_TRUE(several.join_as("trainer").wait_for_error("joined as"));
  several.master().send(SIGTERM);
  const outcome stopped = several.master().finish();
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  const auto done = last_event(stopped, "done");
  EXPECT_EQ(done.at("stopped"), true);
  for (const char* what : {"loss", "auc", "accuracy", "weights_digest"}) EXPECT_TRUE(done.at(what).is_null()) << what;
  several.finish_members(0);
}

TEST(WaitingHosts, StopTheRunWhenOneOfThemIsStopped) {
  gathered_run several(job_of(short_job));
  program& trainer = several.join_as("trainer");
  ASSERT_TRUE(trainer.wait_for_error("joined as"));
  trainer.send(SIGTERM);
  EXPECT_EQ(several.master().finish().exit_code, 0);
  several.finish_members(0);
}

TEST(WaitingHosts, ThatAreStoppedBeforeThereIsAMasterEndWell) {
  program trainer(join_to(free_address(), {}), with_token());
  ASSERT_TRUE(trainer.wait_for_error("trying again"));
  trainer.send(SIGTERM);
  const outcome stopped = trainer.finish();
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
}

TEST(WaitingHosts, ThatAreStoppedWhileTheyConnectDoNotWaitForTheOtherSide) {
  links::raw_server silent;
  program trainer(join_to(links::to_string(silent.address()), {"--dead-after", "86400", "--join-timeout", "86400"}),
                  with_token());
  links::raw_socket side(-1);
  ASSERT_TRUE(comes_true([&] { return silent.accept(side); }));
  ASSERT_TRUE(comes_true([&] { return side.hear() && !side.received().empty(); }));
  trainer.send(SIGTERM);
  const outcome stopped = trainer.finish();
  EXPECT_TRUE(stopped.in_time);
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
}

TEST(StoppedHosts, EndTheStepSaveItAndGoAll) {
  const model::checkpoint_folder folder;
  gathered_run several(with(job_of(endless), {"--save", folder.path()}));
  several.join_as("server");
  program& one = several.join({"--as", "trainer", "--count", "2"});
  ASSERT_TRUE(several.master().wait_for_output(trains));
  one.send(SIGTERM);
  const outcome stopped = several.master().finish();
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  const auto done = last_event(stopped, "done");
  EXPECT_EQ(done.at("stopped"), true);
  several.finish_members(0);
  const auto saved = json_lines(run({"checkpoint", "list", folder.path(), "--json"}).out);
  EXPECT_EQ(saved.front().at("step"), done.at("steps"));
}

}  // namespace
}  // namespace troupe::end_to_end::hosts_test
