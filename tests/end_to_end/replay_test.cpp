// Replays of recorded runs.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/several.hpp"
#include "tests/end_to_end/traced.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recording.hpp"

namespace troupe::end_to_end::replay_test {
namespace {

/// Records a run into `folder`, and returns its digest.
std::string record(const args& options, const temporary_trace& folder, const std::string& mode = "full") {
  return digest_of(
      run(with({"train", "--json", "--trace", mode, "--trace-dir", folder.path()}, options), with_faults("")));
}

boost::json::object replay(const temporary_trace& folder, int code, const args& options = {}) {
  const outcome again = run(with({"trace", "replay", folder.path(), "--json"}, options));
  EXPECT_EQ(again.exit_code, code) << again.out << again.err;
  return last_event(again, "done");
}

void expect_the_same(const temporary_trace& folder, const std::string& digest) {
  const auto done = replay(folder, 0);
  EXPECT_EQ(done.at("weights_digest").as_string(), digest);
  EXPECT_EQ(done.at("recorded_digest").as_string(), digest);
  EXPECT_TRUE(done.at("same").as_bool());
  EXPECT_TRUE(done.at("difference").is_null());
  EXPECT_EQ(done.at("messages"), done.at("recorded"));
  EXPECT_EQ(done.at("compared"), done.at("recorded"));
  EXPECT_GT(done.at("compared").to_number<std::uint64_t>(), 100U);
}

const args adult = {"--data", "adult", "--epochs", "1", "--trainers", "3", "--servers", "2"};

TEST(Replay, AnAsynchronousRunComesOutTheSame) {
  const temporary_trace a;
  const temporary_trace b;
  const args job = with(adult, {"--consistency", "async"});
  const std::string first = record(job, a);
  const std::string second = record(job, b);
  expect_the_same(a, first);
  expect_the_same(b, second);
  expect_the_same(a, first);
}

TEST(Replay, SoDoesOneOfSeveralProcesses) {
  const temporary_trace folder;
  expect_the_same(folder, record(with(adult, {"--consistency", "async", "--processes"}), folder));
}

TEST(Replay, SoDoesOneOfBoundedStaleness) {
  const temporary_trace folder;
  expect_the_same(folder, record(with(adult, {"--consistency", "ssp:2", "--wire-dtype", "bf16"}), folder));
}

TEST(Replay, SoDoesOneWhoseRanksAgreeOnANorm) {
  const temporary_trace folder;
  expect_the_same(folder, record(with(adult, {"--clip-norm", "0.1", "--processes"}), folder));
}

TEST(Replay, StopsAtTheFirstMessageThatDiffers) {
  const temporary_trace folder;
  ASSERT_EQ(
      run(with(small, {"--steps", "12", "--consistency", "async", "--trace", "full", "--trace-dir", folder.path()}),
          with_faults("flip rank=1 step=7"))
          .exit_code,
      0);
  const auto done = replay(folder, 1);
  EXPECT_FALSE(done.at("same").as_bool());
  const std::string difference(done.at("difference").as_string());
  for (const char* word : {"step 7: gradient from trainer 1 to server 0", "tables[0].grad differs"})
    EXPECT_FINDS(difference, word) << word << " in " << difference;
  EXPECT_LT(done.at("messages").to_number<std::uint64_t>(), done.at("recorded").to_number<std::uint64_t>());
}

TEST(Replay, GoesAsFarAsAKilledRunHasRecorded) {
  const temporary_trace folder;
  program running(with({"train"}, with(endless, {"--json", "--processes", "--consistency", "async", "--trace", "full",
                                                 "--trace-dir", folder.path()})));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  ::kill(process_of(running, "server 0"), SIGKILL);
  EXPECT_EQ(running.finish().exit_code, 1);
  const auto done = replay(folder, 0);
  EXPECT_TRUE(done.at("recorded_digest").is_null());
  EXPECT_EQ(done.at("messages"), done.at("recorded"));
  EXPECT_TRUE(done.at("same").as_bool());
}

TEST(Replay, GoesAsFarAsAStoppedRunWent) {
  const temporary_trace folder;
  program running(with({"train"}, with(endless, {"--json", "--trace", "full", "--trace-dir", folder.path()})));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  running.send(SIGINT);
  EXPECT_EQ(running.finish().exit_code, 0);
  const auto done = replay(folder, 0);
  EXPECT_EQ(done.at("messages"), done.at("recorded"));
}

TEST(Replay, SaysWhatItCannotReplay) {
  const temporary_trace ring;
  program running(with(
      {"train"}, with(endless, {"--json", "--trace", "ring", "--trace-ring-mib", "1", "--trace-dir", ring.path()})));
  ASSERT_TRUE(running.wait_for_output("\"epoch\":2000,")) << running.error();
  running.send(SIGKILL);
  running.finish();
  EXPECT_NE(expect_error(run({"trace", "replay", ring.path()}), 2).find("'--trace full' keeps all"), std::string::npos);

  const temporary_trace filtered;
  ASSERT_EQ(run(with(small, {"--steps", "5", "--processes", "--trace", "full", "--trace-filter", "type=gradient",
                             "--trace-dir", filtered.path()}))
                .exit_code,
            0);
  EXPECT_NE(expect_error(run({"trace", "replay", filtered.path()}), 2).find("--trace-filter"), std::string::npos);
  const auto what = value_of(trace::read_recording({{filtered.path()}, 0}));
  EXPECT_EQ(std::ranges::count(what.events, trace::kind::handled, &trace::event::what), 10)
      << "gradients of 5 steps of 2 trainers, by whatever process";

  const temporary_trace saved;
  const temporary_trace resumed;
  ASSERT_EQ(run(with(small, {"--steps", "5", "--save", saved.path() + "/s"})).exit_code, 0);
  ASSERT_EQ(run(with(small, {"--steps", "9", "--resume", saved.path() + "/s", "--trace", "full", "--trace-dir",
                             resumed.path()}))
                .exit_code,
            0);
  EXPECT_NE(expect_error(run({"trace", "replay", resumed.path()}), 2).find("checkpoint of step 5"), std::string::npos);
}

TEST(ReplayActor, EachGetsWhatItGotAndSendsWhatItSent) {
  const temporary_trace folder;
  record(with(adult, {"--consistency", "async"}), folder, "payload");
  for (const char* actor : {"server 0", "server-1", "t0", "trainer 2", "allreduce"}) {
    SCOPED_TRACE(actor);
    const auto done = replay(folder, 0, {"--actor", actor});
    EXPECT_TRUE(done.at("same").as_bool());
    EXPECT_EQ(done.at("messages"), done.at("recorded"));
    EXPECT_GT(done.at("compared").to_number<std::uint64_t>(), 80U);
    EXPECT_TRUE(done.at("error").is_null());
  }
}

TEST(ReplayActor, OfSeveralProcesses) {
  const temporary_trace folder;
  record(with(adult, {"--processes", "--trace-payload", "trainer 1,server 0"}), folder, "payload");
  for (const char* actor : {"server 0", "trainer 1"})
    EXPECT_TRUE(replay(folder, 0, {"--actor", actor}).at("same").as_bool());
  EXPECT_NE(expect_error(run({"trace", "replay", folder.path(), "--actor", "trainer 2"}), 2).find("'--trace payload'"),
            std::string::npos);
  EXPECT_NE(expect_error(run({"trace", "replay", folder.path(), "--actor", "allreduce 0"}), 2).find("without --actor"),
            std::string::npos);
}

TEST(ReplayActor, StopsAtWhatItSentOtherwise) {
  const temporary_trace folder;
  ASSERT_EQ(run(with(small, {"--steps", "12", "--trace", "payload", "--trace-dir", folder.path()}),
                with_faults("flip rank=1 step=7"))
                .exit_code,
            0);
  const std::string difference(replay(folder, 1, {"--actor", "trainer 1"}).at("difference").as_string());
  EXPECT_FINDS(difference, "step 7: gradient to server 0, recorded as trainer 1 #");
  EXPECT_FINDS(difference, "tables[0].grad differs");
  EXPECT_TRUE(replay(folder, 0, {"--actor", "server 0"}).at("same").as_bool()) << "it did the right thing with it";
}

TEST(ReplayActor, SaysWhatIsWrong) {
  const temporary_trace folder;
  record(with(adult, {}), folder);
  const auto line = [&](const args& options) {
    return expect_error(run(with({"trace", "replay", folder.path()}, options)), 2);
  };
  EXPECT_FINDS(line({"--actor", "server 0"}), "'--trace payload' keeps it");
  EXPECT_FINDS(line({"--actor", "server 7"}), "there is no actor 'server 7'");
  EXPECT_FINDS(line({"--actor", "master"}), "without --actor");
  EXPECT_FINDS(line({"--debug"}), "goes with --actor");
}

TEST(ReplayActor, WithoutADebuggerItSaysSo) {
  const temporary_trace folder;
  record(with(adult, {}), folder, "payload");
  launch nothing_installed;
  nothing_installed.environment = {{"PATH", "/nowhere"}};
  const outcome refused = run({"trace", "replay", folder.path(), "--actor", "server 0", "--debug"}, nothing_installed);
  EXPECT_FINDS(expect_error(refused, 2), "gdb cannot be started");
}

}  // namespace
}  // namespace troupe::end_to_end::replay_test
