// Goal: a run's files in the shared temporary folder are not accessible to other users, and starting a run removes only
// folders that earlier runs have left.

#include "trace/record/run_folders.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "base/host.hpp"
#include "tests/read_file.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "trace/record/clock.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace::run_folders_test {
namespace {

namespace fs = std::filesystem;

/// Returns the pid of a process that has ended.
pid_t gone_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class RunFolders : public testing::Test {
 protected:
  fs::path users() const { return place_.path() / fmt::format("troupe-{}", ::geteuid()); }

  run_folder begin_run() const {
    auto made = make_run_folder(place_.path());
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made ? std::move(*made) : run_folder{};
  }

  /// Makes a folder as left by a run of process `pid`; the day of the month orders folders by age.
  fs::path leave(int day, pid_t pid) const { return leave(fmt::format("202501{:02}-120000-{}", day, pid), pid, day); }
  fs::path leave(const std::string& name, pid_t pid, int day = 1) const {
    const fs::path folder = users() / name;
    recorder::options how;
    how.folder = folder;
    how.ring_bytes = 64 * chunk_bytes;
    fs::path ring;
    {
      const auto started = recorder::start(how);
      EXPECT_TRUE(started.has_value()) << started.error().message;
      ring = (*started)->ring_file();
    }
    const auto number = static_cast<std::uint32_t>(pid);
    change(ring, offsetof(file_head, pid), {reinterpret_cast<const char*>(&number), sizeof number});
    set_begin(ring, day);
    return folder;
  }

  /// Sets the time at which recording began, on the monotonic clock.
  static void set_begin(const fs::path& ring, std::int64_t moment) {
    change(ring, offsetof(file_head, begin) + offsetof(clock_sample, monotonic_ns),
           {reinterpret_cast<const char*>(&moment), sizeof moment});
  }

  static fs::path ring_in(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".ring") return entry.path();
    ADD_FAILURE() << folder << " has no ring";
    return {};
  }

  static void change(const fs::path& file, std::size_t at, std::string_view bytes) {
    std::fstream to(file, std::ios::in | std::ios::out | std::ios::binary);
    to.seekp(static_cast<std::streamoff>(at)).write(bytes.data(), std::ssize(bytes));
  }

  /// Replaces a value in the metadata of a folder's ring by another one of the same length.
  static void change_value(const fs::path& folder, const std::string& name, const std::string& value) {
    const fs::path ring = ring_in(folder);
    const std::string bytes = read_file(ring);
    const std::size_t at = bytes.find(fmt::format("\"{}\":\"{}\"", name, value));
    ASSERT_NE(at, bytes.npos) << name;
    change(ring, at + name.size() + 4, std::string(value.size(), value[0] == 'x' ? 'y' : 'x'));
    constexpr std::uint64_t no_digest = 0;
    change(ring, offsetof(file_head, metadata_digest), {reinterpret_cast<const char*>(&no_digest), sizeof no_digest});
    EXPECT_EQ(read_trace_file(ring)->metadata_fault, "");
  }

  const temporary_folder place_;
};

TEST_F(RunFolders, AreForTheUserAlone) {
  const mode_t before = ::umask(0);
  const run_folder made = begin_run();
  ::umask(before);
  EXPECT_EQ(made.warning, "");
  EXPECT_EQ(made.path.parent_path(), users());
  EXPECT_TRUE(made.path.filename().string().ends_with(fmt::format("-{}", ::getpid())));
  EXPECT_EQ(fs::status(users()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(made.path).permissions(), fs::perms::owner_all);
}

TEST_F(RunFolders, ThatSomebodyElseHasPreparedAreNotUsed) {
  const fs::path victim = place_.path() / "victim";
  ASSERT_TRUE(fs::create_directory(victim));
  fs::create_directory_symlink(victim, users());
  for (int i = 0; i < 2; ++i) {
    const run_folder made = begin_run();
    EXPECT_NE(made.warning.find(users().string() + ": is a link; the trace goes to "), std::string::npos)
        << made.warning;
    EXPECT_TRUE(made.path.string().starts_with(users().string() + "-")) << made.path;
    EXPECT_EQ(fs::symlink_status(made.path).permissions(), fs::perms::owner_all);
    EXPECT_TRUE(fs::is_empty(victim));
  }
  fs::remove(users());
  std::ofstream(users()) << "text";
  EXPECT_NE(begin_run().warning.find("cannot be made: File exists"), std::string::npos);
}

TEST_F(RunFolders, OfEarlierRunsAreRemovedButForTheNewestSixteen) {
  const pid_t gone = gone_process();
  std::vector<fs::path> left;
  for (int day = 1; day <= 20; ++day) left.push_back(leave(day, gone));
  ASSERT_TRUE(fs::create_directory(left[3] / "diagnosis-120000"));
  std::ofstream(left[3] / "diagnosis-120000/summary.txt") << "text";
  const run_folder made = begin_run();
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_EQ(fs::exists(left[i]), i >= 4) << left[i];
  EXPECT_TRUE(fs::exists(made.path));
}

/// Names have the local time and zone of their runs, and clocks may be set.
TEST_F(RunFolders, AreRemovedByWhenTheyBeganWhateverTheirNamesSay) {
  const pid_t gone = gone_process();
  std::vector<fs::path> left;
  for (int i = 0; i < 18; ++i) left.push_back(leave(fmt::format("202501{:02}-120000-1", 20 - i), gone, i + 1));
  const fs::path newest = leave("20241231-120000-1", gone, 100);
  begin_run();
  EXPECT_TRUE(fs::exists(newest));
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_EQ(fs::exists(left[i]), i >= 3) << left[i];
}

TEST_F(RunFolders, AreMadeOnlyInAPlaceThatIsThere) {
  const fs::path none = place_.path() / "none";
  const auto made = make_run_folder(none);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message, none.string() + ": there is no such folder; make it, or set TMPDIR to another");
  EXPECT_FALSE(fs::exists(none));
}

/// The rings of an attempt are read together or not at all.
TEST_F(RunFolders, KeepTheNewestAttemptsAtARunWhole) {
  const pid_t gone = gone_process();
  const fs::path folder = place_.path() / "run";
  std::map<std::uint64_t, std::vector<fs::path>> left;  // by run; runs with lower numbers began earlier
  const auto leave_attempt = [&](std::uint64_t run, std::size_t processes, pid_t pid) {
    for (std::size_t i = 0; i < processes; ++i) {
      const fs::path ring = ring_in(leave(fmt::format("{}-{}", run, i), pid));
      left[run].push_back(folder / fmt::format("{}-{}.ring", run, i));
      fs::create_directories(folder);
      fs::rename(ring, left[run].back());
      change(left[run].back(), offsetof(file_head, run), {reinterpret_cast<const char*>(&run), sizeof run});
      set_begin(left[run].back(), static_cast<std::int64_t>(run));
    }
  };
  leave_attempt(1, 2, gone);
  leave_attempt(2, 20, ::getpid());
  leave_attempt(3, 20, gone);
  leave_attempt(4, 20, gone);
  leave_attempt(5, 20, gone);
  remove_old_rings(folder);
  const auto stay = [&](std::uint64_t run) {
    return std::ranges::count_if(left[run], [](const fs::path& ring) { return fs::exists(ring); });
  };
  EXPECT_EQ(stay(1), 0);
  EXPECT_EQ(stay(2), 20) << "its processes live";
  EXPECT_EQ(stay(3), 0);
  EXPECT_EQ(stay(4), 20);
  EXPECT_EQ(stay(5), 20);
  leave_attempt(6, 70, gone);
  remove_old_rings(folder);
  EXPECT_EQ(stay(4) + stay(5), 0);
  EXPECT_EQ(stay(6), 70) << "it is the newest";
}

/// Folders that must stay, although they are older than 16 folders that may be removed.
class RunFoldersThatStay : public RunFolders {
 protected:
  void TearDown() override {
    for (int day = 10; day < 26; ++day) leave(day, gone_);
    const fs::path second = leave(2, gone_);
    begin_run();
    EXPECT_FALSE(fs::exists(second));
    for (const fs::path& path : staying_) EXPECT_TRUE(fs::exists(fs::symlink_status(path))) << path;
  }

  /// A folder older than all others.
  fs::path oldest() { return leave(1, gone_); }

  const pid_t gone_ = gone_process();
  std::vector<fs::path> staying_;
};

TEST_F(RunFoldersThatStay, AreThoseOfProcessesThatLive) {
  staying_.push_back(leave(1, ::getpid()));
  // One process that keeps the folder is enough.
  const fs::path shared = oldest();
  fs::copy_file(ring_in(staying_[0]), shared / "second.ring");
  staying_.push_back(shared);
}

TEST_F(RunFoldersThatStay, AreThoseOfOtherMachinesAndOtherStartsOfThisOne) {
  staying_ = {leave("20250101-000001-7", gone_), leave("20250101-000002-7", gone_), leave("20250101-000003-7", gone_)};
  change_value(staying_[0], "boot", this_boot());
  change_value(staying_[1], "host", host_name());
  fs::resize_file(ring_in(staying_[2]), 100);  // the rest would say where and when it was made
}

TEST_F(RunFoldersThatStay, AreThoseWithOtherNamesOrWithoutRings) {
  for (const char* name : {"1", "4711", "notes-1", "20250101-120000", "20250101-120000-", "20250101-120000-1x",
                           "20250101-12000-1", "2025010-120000-1", "20250101-120000-1-2-3", "-20250101-120000-1"})
    staying_.push_back(leave(name, gone_));
  staying_.push_back(users() / "20250101-130000-1");
  fs::create_directory(staying_.back());
  staying_.push_back(users() / "20250101-140000-1");
  std::ofstream(staying_.back()) << "a file";
}

TEST_F(RunFoldersThatStay, AreThoseThatLinksLeadTo) {
  const fs::path elsewhere = place_.path() / "elsewhere";
  fs::rename(oldest(), elsewhere);
  staying_ = {elsewhere, ring_in(elsewhere), users() / "20250101-120000-1", users() / "20250101-120000-2"};
  fs::create_directory_symlink(elsewhere, staying_[2]);
  ASSERT_TRUE(fs::create_directory(staying_[3]));
  fs::create_symlink(ring_in(elsewhere), staying_[3] / "link.ring");
}

// Process 1 is root's: other users cannot send it a signal.
TEST_F(RunFoldersThatStay, AreThoseOfProcessesThatMayNotBeSignalled) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t somebody = 65534;
    if (::geteuid() == 0 && ::setresuid(somebody, somebody, somebody) != 0) ::_exit(2);
    if (::kill(1, 0) == 0 || errno != EPERM) ::_exit(2);
    std::string place = "/tmp/troupe-test-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr) ::_exit(2);
    const auto users = fs::path(place) / fmt::format("troupe-{}", ::geteuid());
    const auto leave_ring = [&](int day, pid_t pid) {
      recorder::options how;
      how.folder = users / fmt::format("202501{:02}-120000-1", day);
      how.ring_bytes = 64 * chunk_bytes;
      const fs::path ring = (*recorder::start(how))->ring_file();
      const auto number = static_cast<std::uint32_t>(pid);
      change(ring, offsetof(file_head, pid), {reinterpret_cast<const char*>(&number), sizeof number});
      set_begin(ring, day);
    };
    leave_ring(1, 1);
    for (int day = 2; day < 22; ++day) leave_ring(day, gone_);
    const auto made = make_run_folder(place);
    const bool stays = made && fs::exists(users / "20250101-120000-1") && !fs::exists(users / "20250102-120000-1");
    fs::remove_all(place);
    ::_exit(stays ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "there is no process that may not be signalled";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace troupe::trace::run_folders_test
