// Damaged traces: what `troupe trace` reports, and what it still reads.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/several.hpp"
#include "tests/end_to_end/traced.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recording.hpp"

namespace troupe::end_to_end::trace_input_test {
namespace {

namespace fs = std::filesystem;

/// Records a short run in `folder`, and returns the only trace file.
fs::path record(const std::string& folder) {
  EXPECT_EQ(run(with(small, {"--steps", "20", "--trace", "full", "--trace-dir", folder})).exit_code, 0);
  fs::path file;
  for (const auto& entry : fs::directory_iterator(folder)) file = entry.path();
  return file;
}

std::uint64_t messages_of(const outcome& from) {
  EXPECT_EQ(from.exit_code, 0) << from.err;
  return last_event(from, "summary").at("messages").to_number<std::uint64_t>();
}

TEST(TraceInput, WhatIsLeftOfACutOffFileIsReadAndTheRestIsTold) {
  const temporary_trace folder;
  const fs::path file = record(folder.path());
  const std::uint64_t whole = messages_of(run({"trace", "summary", folder.path(), "--json"}));
  EXPECT_GT(whole, 200U);
  fs::resize_file(file, fs::file_size(file) - 100);
  const outcome cut = run({"trace", "summary", folder.path(), "--json"});
  EXPECT_LE(messages_of(cut), whole);
  EXPECT_FINDS(cut.err, file.filename().string());
  fs::resize_file(file, 10);
  EXPECT_NE(expect_error(run({"trace", "summary", file.string()}), 2).find(file.string()), std::string::npos);
}

TEST(TraceInput, ForeignFilesAndNewerVersionsAreRefusedByName) {
  const temporary_trace folder;
  const fs::path file = record(folder.path());
  const std::string foreign = folder.path() + "/notes.txt";
  std::ofstream(foreign) << std::string(100'000, 'x');
  EXPECT_FINDS(expect_error(run({"trace", "check", foreign}), 2), foreign);
  constexpr std::streamoff version_at = 8;
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(version_at).put('\x63');
  const std::string line = expect_error(run({"trace", "check", file.string()}), 2);
  EXPECT_FINDS(line, file.string());
  EXPECT_FINDS(line, "99");
}

TEST(TraceInput, IsNotPutWhereSomebodyElseHasPreparedAPlace) {
  const temporary_trace place;
  const std::string users = place.path() + "/troupe-" + std::to_string(geteuid());
  const std::string victim = place.path() + "/victim";
  fs::create_directories(victim + "/4711");
  fs::create_directory_symlink(victim, users);
  launch how;
  how.environment = {{"TMPDIR", place.path()}, {"TROUPE_TRACE_DIR", ""}};
  const outcome done = run(with(small, {"--steps", "20", "--trace", "full", "--processes"}), how);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_FINDS(done.err, "troupe: warning: " + users + ": is a link; the trace goes to " + users + "-");
  EXPECT_TRUE(fs::exists(victim + "/4711"));
  EXPECT_EQ(std::distance(fs::directory_iterator(victim), {}), 1);
  std::size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(place.path())) {
    if (!entry.path().string().starts_with(users + "-")) continue;
    ++folders;
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_all);
    EXPECT_EQ(std::distance(fs::directory_iterator(entry), {}), 4) << "master, server and trainers";
    EXPECT_GT(messages_of(run({"trace", "summary", entry.path().string(), "--json"})), 0U);
  }
  EXPECT_EQ(folders, 1U);
}

TEST(TraceInput, OfTheDefaultPlaceIsForTheUserAloneAndGoesWithACleanEnd) {
  const temporary_trace place;
  const fs::path users = place.path() + "/troupe-" + std::to_string(geteuid());
  launch how;
  how.environment = {{"TMPDIR", place.path()}, {"TROUPE_TRACE_DIR", ""}, {"TROUPE_TRACE", "ring"}};
  const outcome done = run(with(small, {"--steps", "20"}), how);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.err.find("warning"), std::string::npos) << done.err;
  ASSERT_TRUE(fs::is_directory(users));
  EXPECT_EQ(fs::status(users).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(users));
}

TEST(TraceInput, WhatIsNeitherFileNorFolderIsRefused) {
  const temporary_trace folder;
  const std::string pipe = folder.path() + "/p.ring";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FINDS(expect_error(run({"trace", "summary", pipe}), 2), "is neither a file nor a folder");
}

TEST(TraceInput, WhatAFilterLeavesOutIsNotTakenForMissing) {
  const temporary_trace folder;
  ASSERT_EQ(run(with(small, {"--steps", "20", "--trace", "full", "--trace-filter", "actor=server *", "--trace-dir",
                             folder.path()}))
                .exit_code,
            0);
  EXPECT_EQ(run({"trace", "check", folder.path()}).exit_code, 0);
  EXPECT_NE(expect_error(run({"trace", "replay", folder.path()}), 2).find("--trace-filter"), std::string::npos);
}

TEST(TraceInput, ARingThatHasWrappedIsNotTakenForBroken) {
  const temporary_trace folder;
  program running(with({"train"}, with(endless, {"--json", "--trainers", "3", "--servers", "2", "--trace", "ring",
                                                 "--trace-ring-mib", "1", "--trace-dir", folder.path()})));
  ASSERT_TRUE(running.wait_for_output("\"epoch\":3000,")) << running.error();
  running.send(SIGKILL);
  running.finish();
  const outcome checked = run({"trace", "check", folder.path()});
  EXPECT_EQ(checked.exit_code, 0) << checked.out;
  const outcome asked = run({"trace", "blocked", folder.path()});
  EXPECT_FINDS(asked.out, "has been dead since");
}

TEST(TraceInput, VariablesOfOneProcessAreNotForItsChildren) {
  const temporary_trace folder;
  launch how;
  how.environment = {{"TROUPE_PAGE", "0"}, {"TROUPE_STEP_TIMEOUT", "30"}, {"TROUPE_TRACE_DIR", folder.path()}};
  EXPECT_EQ(run(with(small, {"--steps", "5", "--processes"}), how).exit_code, 0);
  how.environment[2].second = "/proc/nowhere";
  how.environment.erase(how.environment.begin());
  how.environment.emplace_back("TROUPE_TRACE", "ring");
  const outcome unrecorded = run(with(small, {"--steps", "5", "--processes"}), how);
  EXPECT_EQ(unrecorded.exit_code, 0) << unrecorded.err;
  EXPECT_FINDS(unrecorded.err, "nothing is recorded");
}

TEST(TraceInput, OfTwoRunsOneHasToBeNamed) {
  const temporary_trace folder;
  const fs::path first = record(folder.path() + "/a");
  record(folder.path() + "/b");
  const std::string line = expect_error(run({"trace", "summary", folder.path()}), 2);
  EXPECT_FINDS(line, "2 runs");
  EXPECT_FINDS(line, "--run");
  const auto one = value_of(trace::read_recording({{first}, 0}));
  EXPECT_EQ(messages_of(run({"trace", "summary", folder.path(), "--json", "--run", std::to_string(one.run)})),
            messages_of(run({"trace", "summary", first.string(), "--json"})));
  EXPECT_NE(expect_error(run({"trace", "summary", folder.path(), "--run", "12"}), 2).find("run 12"), std::string::npos);
}

TEST(TraceInput, WhatIsNotThereIsNamedWithWhatIs) {
  const temporary_trace folder;
  record(folder.path());
  const auto line = [&](args question) {
    question.insert(question.begin(), "trace");
    question.push_back(folder.path());
    return expect_error(run(question), 2);
  };
  EXPECT_FINDS(line({"why", "trainer 0 #999999"}), "#999999");
  EXPECT_FINDS(line({"cone", "trainer 9 #1"}), "there is no actor 'trainer 9'");
  EXPECT_FINDS(line({"why", "yesterday"}), "names no message");
  EXPECT_FINDS(line({"critical-path", "--step", "21"}), "21");
  EXPECT_FINDS(line({"blame", "7", "0"}), "--trace payload");
}

TEST(TraceInput, ADiskThatFillsEndsTheRecordingAndNotTheRun) {
  const args job = with(small, {"--steps", "20000", "--json"});
  const std::string expected = digest_of(run(with(job, {"--trace", "off"})));
  const temporary_trace folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small_files = before;
  small_files.rlim_cur = std::uint64_t{3} << 19;  // fits the ring, not the log
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small_files), 0);
  const outcome full = run(with(job, {"--trace", "full", "--trace-ring-mib", "1", "--trace-dir", folder.path()}));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(digest_of(full), expected);
  EXPECT_FINDS(full.err, "not everything was recorded: " + folder.path());
  EXPECT_FINDS(full.err, "what came after is not kept");
  // The kept part can be read, and the missing amount is reported.
  const auto read = value_of(trace::read_recording({{folder.path()}, 0}));
  const trace::process_info& process = read.processes.at(0);
  EXPECT_GT(process.records, 1000U);
  EXPECT_GT(process.overwritten, 1000U);
  EXPECT_GT(process.contents_lost, 1000U);
  EXPECT_GT(read.contents.size(), 1000U);
}

}  // namespace
}  // namespace troupe::end_to_end::trace_input_test
