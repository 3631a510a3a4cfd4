// Goal: a process's metadata reach readers byte for byte, whatever bytes the system's names contain; metadata that do
// not reach them are known to be missing.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "base/text.hpp"
#include "tests/read_file.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace::metadata_test {
namespace {

namespace fs = std::filesystem;

/// Starts a recorder with one record.
std::unique_ptr<recorder> start(const fs::path& folder, mode what = mode::ring, const std::string& command = {}) {
  recorder::options how;
  how.what = what;
  how.folder = folder;
  how.ring_bytes = 64 * chunk_bytes;
  how.types = {{417, "gradient"}};
  how.command = command;
  auto made = recorder::start(how);
  EXPECT_TRUE(made) << made.error().message;
  (*made)->set_run(7, 0, 0);
  record one;
  one.id = 1;
  one.bytes32_kind8_flags8_stamp16 = pack_kind(0, kind::handled, 0);
  (*made)->append(one);
  return std::move(*made);
}

recording read(const fs::path& folder) {
  auto made = read_recording({{folder}});
  EXPECT_TRUE(made) << made.error().message;
  return made ? std::move(*made) : recording{};
}

void write(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

TEST(Metadata, KeepEveryByteOfTheSystemsNames) {
  const temporary_folder place;
  const fs::path folder = place.path() / "tr\xff";
  const std::string command = "troupe train --data csv:d\xff.csv --save '\\xff' caf\xc3";
  const auto made = start(folder, mode::ring, command);
  made->describe("job", boost::json::object{{"data", "csv:d\xff.csv"}});
  made->finish(false);
  const recording got = read(folder);
  ASSERT_EQ(got.processes.size(), 1U);
  EXPECT_TRUE(got.warnings.empty()) << got.warnings.front();
  EXPECT_EQ(got.unreadable_metadata(), std::nullopt);
  EXPECT_EQ(got.type_name(417), "gradient");
  const boost::json::object& all = got.processes[0].metadata;
  EXPECT_EQ(all.at("command").as_string(), command);
  EXPECT_EQ(all.at("job").at("data").as_string(), "csv:d\xff.csv");
  EXPECT_EQ(find_non_utf8(read_file(made->ring_file()).substr(head_bytes, metadata_bytes)), std::string::npos);
}

/// After one flipped bit, the metadata may still be valid JSON.
TEST(Metadata, ThatAnyBitWasFlippedInAreKnownToBeDamaged) {
  const temporary_folder folder;
  const auto made = start(folder.path());
  made->finish(false);
  const std::string whole = read_file(made->ring_file());
  const std::size_t length = whole.find('\0', head_bytes) - head_bytes;
  ASSERT_GT(length, 50U);
  for (std::size_t at = 0; at < length; ++at) {
    std::string spoiled = whole;
    spoiled[head_bytes + at] ^= 1;
    const auto file = value_of(parse_trace_file(spoiled, "a.ring"));
    EXPECT_EQ(file.metadata_fault, "are damaged") << at;
  }
  for (const std::uint32_t claimed : {0U, 1U, 20U, UINT32_MAX}) {
    std::string spoiled = whole;
    std::memcpy(spoiled.data() + offsetof(file_head, metadata_length), &claimed, sizeof claimed);
    write(made->ring_file(), spoiled);
    const recording got = read(folder.path());
    EXPECT_EQ(got.unreadable_metadata(),
              fmt::format("{}: its metadata are {}", made->ring_file().string(), claimed == 0 ? "missing" : "damaged"));
    ASSERT_EQ(got.warnings.size(), 1U);
    EXPECT_EQ(got.warnings[0], *got.unreadable_metadata() + ", and with them what its numbers mean");
  }
}

TEST(Metadata, OfFilesFromBeforeTheyHadADigestAreRead) {
  const temporary_folder folder;
  const auto made = start(folder.path());
  made->finish(false);
  std::string older = read_file(made->ring_file());
  constexpr std::uint64_t none = 0;
  std::memcpy(older.data() + offsetof(file_head, metadata_digest), &none, sizeof none);
  write(made->ring_file(), older);
  EXPECT_EQ(read(folder.path()).unreadable_metadata(), std::nullopt);
  older[head_bytes] = '\xff';
  write(made->ring_file(), older);
  EXPECT_TRUE(read(folder.path()).unreadable_metadata().has_value());
}

TEST(Metadata, AreTakenFromTheLogIfThoseOfTheRingAreDamaged) {
  const temporary_folder folder;
  const auto made = start(folder.path(), mode::full);
  made->finish(false);
  for (const char* damaged : {".ring", ".log"}) {
    const fs::path file = fs::path(made->ring_file()).replace_extension(damaged);
    const std::string whole = read_file(file);
    std::string spoiled = whole;
    spoiled[head_bytes] = 'x';
    write(file, spoiled);
    const recording got = read(folder.path());
    EXPECT_EQ(got.unreadable_metadata(), std::nullopt) << damaged;
    EXPECT_EQ(got.type_name(417), "gradient") << damaged;
    EXPECT_TRUE(got.warnings.empty()) << damaged;
    write(file, whole);
  }
}

TEST(Metadata, ThatThereIsNoRoomForAreLeftOutByName) {
  const temporary_folder folder;
  const auto made = start(folder.path(), mode::ring, std::string(200'000, 'c'));
  EXPECT_EQ(read(folder.path()).unreadable_metadata(), std::nullopt) << "only a part of the command is kept";
  made->describe("notes", boost::json::string(std::string(metadata_bytes, '\xff')));
  made->describe("job", boost::json::object{{"data", "adult"}});
  const recording without_notes = read(folder.path());
  EXPECT_EQ(without_notes.unreadable_metadata(), std::nullopt);
  EXPECT_EQ(without_notes.processes[0].metadata.at("left_out"), (boost::json::array{"notes"}));
  EXPECT_EQ(without_notes.processes[0].metadata.at("job").at("data"), "adult");
  made->describe("job", boost::json::object{{"columns", std::string(metadata_bytes, 'x')}, {"consistency", "async"}});
  const recording without_columns = read(folder.path());
  EXPECT_EQ(without_columns.processes[0].metadata.at("left_out"), (boost::json::array{"notes", "job.columns"}));
  EXPECT_EQ(without_columns.processes[0].metadata.at("job"), (boost::json::object{{"consistency", "async"}}));
  EXPECT_EQ(without_columns.unreadable_metadata(), std::nullopt) << "verdicts need short settings only";
}

/// The kernel allows any bytes in a host's name.
TEST(Metadata, OfAHostWithASlashInItsNameStayInTheFolder) {
  const temporary_folder place;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr std::string_view name = "../h\xff/x";
    if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(name.data(), name.size()) != 0) ::_exit(2);
    const auto made = start(place.path() / "run", mode::full);
    made->finish(false);
    const recording got = read(place.path() / "run");
    const bool is_right = made->ring_file().parent_path() == place.path() / "run" && !got.processes.empty() &&
                          got.processes[0].metadata.at("host").as_string() == name &&
                          got.processes[0].host == "../h\\xff/x";
    ::_exit(is_right && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), {}), 1);
}

}  // namespace
}  // namespace troupe::trace::metadata_test
