// Goal: names that are not UTF-8, which the system allows, and names that move a terminal's cursor, neither end a run
// nor spoil its output. Method: folders and files with these names.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "model/checkpoint/names.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/several.hpp"
#include "tests/end_to_end/traced.hpp"
#include "tests/read_file.hpp"
#include "tests/value_of.hpp"
#include "trace/record/file_format.hpp"
#include "trace/record/recording.hpp"

namespace troupe::end_to_end::names_test {
namespace {

namespace fs = std::filesystem;

const args columns = {"--columns", R"([{"name": "y", "kind": "label"}, {"name": "x", "kind": "categorical"}])",
                      "--rows", "10"};

class Names : public testing::Test {
 protected:
  /// Writes rows to a file of this name; returns the start of a job that reads it.
  args job_with(const std::string& name) const {
    const std::string path = place_.path() + "/" + name;
    std::ofstream rows(path);
    rows << "y,x\n";
    for (int row = 0; row < 64; ++row) rows << row % 2 << "," << row % 5 << "\n";
    return with({"train", "--data", "csv:" + path, "--batch-size", "8", "--test-fraction", "0"}, columns);
  }
  std::string folder(const std::string& name) const {
    fs::create_directory(place_.path() + "/" + name);
    return place_.path() + "/" + name;
  }

  const temporary_trace place_;
};

/// Expects that all standard output is JSON in UTF-8, and that nothing moves a cursor.
void expect_clean(const outcome& from) {
  EXPECT_EQ(find_non_utf8(from.out), std::string::npos) << from.out;
  EXPECT_EQ(find_non_utf8(from.err), std::string::npos) << from.err;
  EXPECT_EQ(from.err.find('\x1b'), std::string::npos) << from.err;
  EXPECT_EQ(from.err.find("boost"), std::string::npos) << from.err;
  json_lines(from.out);
}

TEST_F(Names, ThatAreNotUtf8AreKeptInRecordings) {
  const std::string traces = place_.path() + "/tr\xff";
  const args job = with(job_with("d\xff.csv"), {"--steps", "20", "--json", "--trace", "full"});
  ASSERT_EQ(run(with(job, {"--trace-dir", traces})).exit_code, 0);
  const outcome checked = run({"trace", "check", traces, "--json"});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
  EXPECT_EQ(checked.err, "");
  EXPECT_TRUE(last_event(checked, "check").at("holds").as_bool());
  const auto read = value_of(trace::read_recording({{traces}}));
  EXPECT_TRUE(read.warnings.empty());
  EXPECT_EQ(read.processes[0].metadata.at("job").at("data").as_string(), job[2]);
  EXPECT_NE(read.processes[0].host, "");
  EXPECT_EQ(run({"trace", "replay", traces}).exit_code, 0) << "the file is found by its name";
  EXPECT_EQ(run({"trace", "diff", traces, traces}).exit_code, 0);
  for (const char* analysis : {"summary", "blocked", "critical-path"})
    expect_clean(run({"trace", analysis, traces, "--json"}));
  const std::string timeline = place_.path() + "/t\xff.json";
  expect_clean(run({"trace", "timeline", traces, "-o", timeline, "--json"}));
  EXPECT_EQ(find_non_utf8(read_file(timeline)), std::string::npos);
}

TEST_F(Names, ThatAreNotUtf8EndNoRunThatMayGoOnAfterLosses) {
  const args job = with(job_with("d\xff.csv"), {"--steps", "60", "--json", "--checkpoint-every", "20"});
  launch how;
  how.environment = {{"TMPDIR", folder("tmp\xff")}, {"TROUPE_TRACE_DIR", ""}, {"TROUPE_TRACE", "ring"}};
  const std::string once = digest_of(run(with(job, {"--save", place_.path() + "/one\xff"}), how));
  int number = 0;
  for (const args& more : {args{}, args{"--processes"}, args{"--trace-dir", place_.path() + "/tr\xff"},
                           args{"--processes", "--trace-dir", place_.path() + "/tr\xff\xfe"}}) {
    const std::string saved = place_.path() + "/s\xff" + std::to_string(number++);
    const outcome done = run(with(with(job, {"--save", saved}), more), how);
    EXPECT_EQ(digest_of(done), once) << done.err;
    expect_clean(done);
    const std::string manifest = read_file(saved + "/" + model::manifest_name(60));
    EXPECT_EQ(find_non_utf8(manifest), std::string::npos);
    EXPECT_FINDS(manifest, R"(d\\xff.csv)");
    const outcome longer = run({"train", "--resume", saved, "--steps", "80", "--json"}, how);
    EXPECT_EQ(longer.exit_code, 0) << longer.err;
    for (const args& asked : {args{"list"}, args{"verify"}})
      expect_clean(run(with(with({"checkpoint"}, asked), {saved, "--json"})));
    expect_clean(run({"checkpoint", "export", saved, "-o", place_.path() + "/e\xff", "--force", "--json"}));
  }
}

TEST_F(Names, AreShownWithEscapesInErrorsAndEvents) {
  for (const std::string name : {"none\xff", "none\x1b[2J\x9b", "none\xe2\x80\xae"}) {
    const std::string path = place_.path() + "/" + name;
    for (const args& wrong :
         {with({"train", "--data", "csv:" + path, "--json"}, columns), args{"train", "--resume", path, "--json"},
          args{"train", path, "--json"}, args{"trace", "check", path, "--json"},
          args{"trace", "summary", path, "--json"}, args{"checkpoint", "list", path, "--json"},
          args{"train", "--trace", "full", "--trace-dir", "/proc/" + name, "--json"},
          args{"train", "--save", "/proc/" + name, "--json"}, args{"train", "--metrics-csv", "/proc/" + name, "--json"},
          args{"train", "--tensorboard", "/proc/" + name, "--json"}, args{"train", "--" + name, "1", "--json"},
          args{"parity", path, "--json"}, args{name, "--json"}}) {
      const outcome refused = run(wrong);
      EXPECT_EQ(refused.exit_code, 2) << refused.err;
      expect_clean(refused);
      EXPECT_FINDS(refused.err, harmless(name));
    }
  }
}

TEST_F(Names, OfTheSystemThatAreNoFolderAreNotMade) {
  const std::string none = place_.path() + "/none";
  launch how;
  how.environment = {{"TMPDIR", none}, {"TROUPE_TRACE_DIR", ""}, {"TROUPE_TRACE", ""}};
  const args job = with(small, {"--steps", "5"});
  const outcome done = run(job, how);
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_FINDS(done.err, "troupe: warning: nothing is recorded: " + none + ": there is no such folder");
  EXPECT_NE(expect_error(run(with(job, {"--trace", "full"}), how), 2).find("--trace: " + none), std::string::npos);
  EXPECT_FALSE(fs::exists(none));
}

/// A verdict about a run rests on the metadata: damaged metadata accuse no actor.
TEST_F(Names, ThatAreLostFromARecordingMakeNoVerdict) {
  const std::string traces = folder("traces");
  const args job = with(job_with("rows.csv"), {"--steps", "20", "--trace", "payload", "--trace-dir", traces});
  ASSERT_EQ(run(job).exit_code, 0);
  ASSERT_EQ(std::distance(fs::directory_iterator(traces), {}), 1);
  const fs::path file = fs::directory_iterator(traces)->path();
  const std::string whole = read_file(file);
  const std::size_t type = whole.find("\"gradient\"");
  ASSERT_LT(type, trace::head_bytes + trace::metadata_bytes);
  const auto spoiled_at = [&](std::size_t at, std::size_t count, char byte) {
    std::string made = whole;
    std::fill_n(made.begin() + static_cast<std::ptrdiff_t>(at), count, byte);
    return made;
  };
  for (const std::string& spoiled :
       {spoiled_at(trace::head_bytes + 20, 1, '\xff'), spoiled_at(trace::head_bytes, trace::metadata_bytes, '\0'),
        spoiled_at(type + 1, 1, 'x'), spoiled_at(offsetof(trace::file_head, metadata_length), 4, '\0')}) {
    std::ofstream(file, std::ios::binary) << spoiled;
    for (const args& asked :
         {args{"check", traces}, args{"diff", traces, traces}, args{"blame", "0", "1", traces}, args{"replay", traces},
          args{"replay", "--actor", "server 0", traces}, args{"blocked", traces}}) {
      const std::string line = expect_error(run(with({"trace"}, asked)), 2);
      EXPECT_FINDS(line, file.string() + ": its metadata are ");
      EXPECT_FINDS(line, "troupe trace " + asked[0] + " has no answer");
    }
    const outcome shown = run({"trace", "summary", traces});
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_FINDS(shown.err, "and with them what its numbers mean");
  }
}

}  // namespace
}  // namespace troupe::end_to_end::names_test
