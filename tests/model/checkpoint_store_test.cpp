#include "model/checkpoint/store.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "model/checkpoint/names.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::model::checkpoint_store_test {
namespace {

/// The names in a folder, without the digits that make a save's folder unique.
std::vector<std::string> kinds_of_entries(const std::string& path) {
  std::vector<std::string> names = entries_of(path);
  for (std::string& name : names) {
    if (step_of_files_folder(name)) name = name.substr(0, name.size() - 8) + "*";
  }
  return names;
}

using names = std::vector<std::string>;

std::string refusal(const std::string& directory, const resume_point* resumed = nullptr) {
  const auto store = checkpoint_store::open(directory, resumed);
  EXPECT_FALSE(store.has_value()) << directory;
  if (store) return "";
  EXPECT_EQ(store.error().kind, fault_kind::input);
  return store.error().message;
}

TEST(CheckpointStore, KeepsTheNewestTwo) {
  const checkpoint_folder folder;
  auto store = checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_EQ(entries_of(folder.path()), names{".lock"});
  ASSERT_TRUE(save_made(*store, 20).has_value());
  EXPECT_EQ(kinds_of_entries(folder.path()), (names{".lock", "step-000000000020-*", "step-000000000020.json"}));
  ASSERT_TRUE(save_made(*store, 40).has_value());
  ASSERT_TRUE(save_made(*store, 60).has_value());
  EXPECT_EQ(kinds_of_entries(folder.path()), (names{".lock", "step-000000000040-*", "step-000000000040.json",
                                                    "step-000000000060-*", "step-000000000060.json"}));
  const auto found = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->what.manifest.step, 60U);
  EXPECT_TRUE(found->warnings.empty());
  EXPECT_EQ(found->what.manifest.settings, made_manifest(60).settings);
  EXPECT_EQ(found->what.manifest.position, made_manifest(60).position);
  expect_made(found->what);
  EXPECT_EQ(entries_of(folder / found->what.manifest.folder),
            (names{"dense.safetensors", "table-0.shard-0-of-2.safetensors", "table-0.shard-1-of-2.safetensors",
                   "table-1.shard-0-of-1.safetensors"}));
}

/// A file's permissions in octal, as `ls` would list them.
std::string permissions_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
  return fmt::format("{:o}", found.st_mode & 07777U);
}

TEST(CheckpointStore, WritesThroughNoLinkThatLiesInItsFolder) {
  const checkpoint_folder folder;
  set_content(folder / "mine", "private");
  std::filesystem::create_symlink(folder / "mine", folder / uncommitted_manifest_name(20));
  {
    auto store = checkpoint_store::open(folder.path(), nullptr);
    ASSERT_TRUE(store.has_value()) << store.error().message;
    ASSERT_TRUE(save_made(*store, 20).has_value());
  }
  EXPECT_EQ(read_file(folder / "mine"), "private");
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / manifest_name(20))));

  std::filesystem::remove(folder / ".lock");
  std::filesystem::create_symlink(folder / "mine", folder / ".lock");
  const std::string line = refusal(folder.path());
  EXPECT_EQ(line.find(folder / ".lock" + ": is a link or another user's"), 0U) << line;
  EXPECT_EQ(read_file(folder / "mine"), "private");
}

TEST(CheckpointStore, IsLockedByAFileThatOnlyItsOwnerCanOpen) {
  const checkpoint_folder folder;
  ASSERT_TRUE(checkpoint_store::open(folder.path(), nullptr).has_value());
  EXPECT_EQ(permissions_of(folder / ".lock"), "600");
  ASSERT_EQ(::chmod((folder / ".lock").c_str(), 0666), 0);  // the mode that earlier versions used
  ASSERT_TRUE(checkpoint_store::open(folder.path(), nullptr).has_value());
  EXPECT_EQ(permissions_of(folder / ".lock"), "600");
}

TEST(CheckpointStore, RemovesWhatWasNeverCommittedAndNothingOfOthers) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {20, 40});
  const auto resumed = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(resumed.has_value());
  for (const char* name : {"step-000000000050-00000001", "step-000000000060-00000001", "step-000000000010-00000002",
                           "step-mine", "step-000000000050-shared"}) {
    std::filesystem::create_directory(folder / name);
    set_content(folder / name + "/dense.safetensors", "torn");
  }
  std::filesystem::create_directory_symlink(folder / "step-mine", folder / "step-000000000050-00000003");
  set_content(folder / "step-000000000010-00000002/notes.txt", "mine");
  set_content(folder / "step-000000000050.json.tmp", "{");
  set_content(folder / "step-000000000050.json.bak", "mine");
  set_content(folder / "notes.txt", "mine");

  auto store = checkpoint_store::open(folder.path(), &*resumed);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE(save_made(*store, 60).has_value());
  EXPECT_EQ(kinds_of_entries(folder.path()),
            (names{".lock", "notes.txt", "step-000000000010-*", "step-000000000040-*", "step-000000000040.json",
                   "step-000000000050-*", "step-000000000050-shared", "step-000000000050.json.bak",
                   "step-000000000060-*", "step-000000000060.json", "step-mine"}));
  EXPECT_EQ(entries_of(folder / "step-000000000010-00000002"), names{"notes.txt"});
  EXPECT_EQ(entries_of(folder / "step-mine"), names{"dense.safetensors"});
}

TEST(CheckpointStore, AStepSavedAgainReplacesTheFirst) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {20, 40});
  const auto resumed = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(resumed.has_value());
  auto store = checkpoint_store::open(folder.path(), &*resumed);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE(save_made(*store, 40).has_value());
  const auto again = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(again.has_value());
  EXPECT_NE(again->what.manifest.folder, resumed->what.manifest.folder);
  EXPECT_EQ(kinds_of_entries(folder.path()), (names{".lock", "step-000000000020-*", "step-000000000020.json",
                                                    "step-000000000040-*", "step-000000000040.json"}));
}

TEST(CheckpointStore, TheBeginningOfARunNeedsNoFiles) {
  const checkpoint_folder folder;
  auto store = checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE(store->begin(0).has_value());
  checkpoint_manifest manifest;
  manifest.settings = {{"seed", "7"}};
  ASSERT_TRUE(store->commit(manifest).has_value());
  const auto found = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->what.manifest.step, 0U);
  EXPECT_TRUE(found->what.manifest.files.empty());
  EXPECT_EQ(found->what.manifest.settings, manifest.settings);
}

TEST(CheckpointStore, WhatWasBegunAndNotCommittedIsRemoved) {
  const checkpoint_folder folder;
  {
    auto store = checkpoint_store::open(folder.path(), nullptr);
    ASSERT_TRUE(store.has_value());
    const auto first = store->begin(20);
    ASSERT_TRUE(first.has_value());
    ASSERT_TRUE(write_made_dense(*first, made_content().dense, 20).has_value());
    const auto second = store->begin(20);
    ASSERT_TRUE(second.has_value());
    EXPECT_NE(*first, *second);
    EXPECT_FALSE(std::filesystem::exists(*first));
    store->abandon();
    EXPECT_EQ(entries_of(folder.path()), names{".lock"});
    checkpoint_store moved = std::move(*store);
    ASSERT_TRUE(moved.begin(40).has_value());
  }
  EXPECT_EQ(entries_of(folder.path()), names{".lock"});
}

TEST(CheckpointStore, CommitsOnlyWhatIsThere) {
  const checkpoint_folder folder;
  auto store = checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(store.has_value());
  const std::string where = "checkpoint step 20 in " + folder.path() + ": ";
  EXPECT_EQ(store->commit(made_manifest(20)).error().message, where + "was not begun");

  made_content dense_only;
  dense_only.tables.clear();
  const auto commit = [&](auto change) {
    const auto files = store->begin(20);
    checkpoint_manifest manifest = made_manifest(20, dense_only);
    manifest.files = {*write_made_dense(*files, dense_only.dense, 20)};
    change(manifest, *files);
    const auto done = store->commit(std::move(manifest));
    EXPECT_FALSE(done.has_value());
    EXPECT_EQ(entries_of(folder.path()), names{".lock"});
    if (done) return std::string();
    EXPECT_EQ(done.error().kind, fault_kind::run);
    return done.error().message;
  };
  using manifest = checkpoint_manifest;
  EXPECT_EQ(commit([](manifest&, const std::string& files) { ::unlink((files + "/dense.safetensors").c_str()); }),
            where + "dense.safetensors: is missing");
  EXPECT_EQ(commit([](manifest& what, const std::string&) { what.files[0].length += 8; }),
            where + "dense.safetensors: 8 bytes missing");
  EXPECT_EQ(commit([](manifest& what, const std::string&) { what.dense[0].shape = {6}; }),
            where + "dense.safetensors: its tensors are not those of the manifest");
  EXPECT_EQ(commit([](manifest& what, const std::string&) { what.tables = made_content().tables; }),
            where + "its manifest: 1 files: must be 4");
  EXPECT_EQ(commit([](manifest& what, const std::string&) { what.files.push_back(what.files[0]); }),
            where + "its manifest: 2 files: must be 1");
  EXPECT_EQ(commit([](manifest& what, const std::string&) { what.settings.emplace_back("seed", "8"); }),
            where + "its manifest: troupe would write it in another way: unknown or repeated keys?");
  EXPECT_EQ(commit([](manifest& what, const std::string&) { what.step = 21; }),
            "checkpoint step 21 in " + folder.path() + ": was not begun");
  EXPECT_TRUE(save_made(*store, 20).has_value());
}

// -- the folder ------------------------------------------------------------------------------------------------------

TEST(CheckpointStore, MakesTheFolderAndThoseAbove) {
  const checkpoint_folder folder;
  for (const char* name : {"one", "two/", "a/b/c", "a/b/../d//", "a/./e"}) {
    const auto store = checkpoint_store::open(folder / name, nullptr);
    ASSERT_TRUE(store.has_value()) << store.error().message;
    EXPECT_TRUE(std::filesystem::is_directory(folder / name));
  }
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const bool relative = checkpoint_store::open("relative", nullptr).has_value();
  std::filesystem::current_path(before);
  EXPECT_TRUE(relative);
  EXPECT_TRUE(std::filesystem::is_directory(folder / "relative"));
}

TEST(CheckpointStore, RefusesWhatCannotBeAFolder) {
  const checkpoint_folder folder;
  set_content(folder / "file", "");
  EXPECT_EQ(refusal(folder / "file"), folder / "file" + ": is not a folder: checkpoints need one");
  EXPECT_EQ(refusal(folder / "file/below"), folder / "file/below" + ": making the folder: Not a directory");
  EXPECT_EQ(refusal("/proc/none"), "/proc/none: making the folder: No such file or directory");
  EXPECT_EQ(refusal("/proc/self/task"),
            "/proc/self/task: checkpoints cannot be written there: No such file or directory");
  EXPECT_EQ(refusal(""), "the folder for checkpoints has no name");
}

// Runs in a child without root's privileges, if the tests have them.
TEST(CheckpointStore, RefusesAFolderThatCannotBeWritten) {
  const checkpoint_folder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  constexpr int as_expected = 0;
  constexpr int other = 1;
  constexpr int no_such_user = 2;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t nobody = 65534;
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(no_such_user);
    const bool here =
        refusal(folder.path()) == folder.path() + ": checkpoints cannot be written there: Permission denied";
    const bool below = refusal(folder / "below") == folder / "below" + ": making the folder: Permission denied";
    ::_exit(here && below ? as_expected : other);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_such_user) GTEST_SKIP() << "skipped: root here cannot become another user";
  EXPECT_EQ(WEXITSTATUS(status), as_expected);
}

TEST(CheckpointStore, TwoRunsDoNotSaveInOneFolder) {
  const checkpoint_folder folder;
  auto first = checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(first.has_value());
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string line = fmt::format(
      "{}: another run (host {}, pid {}) saves its checkpoints there now; wait for its end, or name another folder",
      folder.path(), host.data(), ::getpid());
  EXPECT_EQ(refusal(folder.path()), line);
  {
    const checkpoint_store moved = std::move(*first);
    EXPECT_EQ(refusal(folder.path()), line);
  }
  EXPECT_TRUE(checkpoint_store::open(folder.path(), nullptr).has_value());
}

TEST(CheckpointStore, ANewRunDoesNotTouchThoseOfAnother) {
  const checkpoint_folder folder;
  make_checkpoints(folder / "a", {20, 40});
  make_checkpoints(folder / "b", {20});
  const std::string line = folder / "a" + ": holds checkpoints of a run already (newest step 40): continue it by " +
                           "--resume " + folder / "a" + ", or name another folder";
  EXPECT_EQ(refusal(folder / "a"), line);
  const auto other = newest_whole_checkpoint(folder / "b");
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(refusal(folder / "a", &*other), line);
  EXPECT_TRUE(checkpoint_store::open(folder / "c", &*other).has_value());
}

TEST(CheckpointStore, TheFolderOfTheRunIsKnownByAnyName) {
  const checkpoint_folder folder;
  make_checkpoints(folder / "a", {20, 40});
  std::filesystem::create_directory_symlink("a", folder / "link");
  const auto resumed = newest_whole_checkpoint(folder / "a");
  ASSERT_TRUE(resumed.has_value());
  for (const char* name : {"a", "a/", "link", "a/../a"}) {
    const auto store = checkpoint_store::open(folder / name, &*resumed);
    EXPECT_TRUE(store.has_value()) << name << ": " << store.error().message;
  }
}

TEST(CheckpointStore, AnotherRunThatWasQuickerIsNoticed) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {20, 40});
  const auto resumed = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(resumed.has_value());
  {
    auto quicker = checkpoint_store::open(folder.path(), &*resumed);
    ASSERT_TRUE(quicker.has_value());
    ASSERT_TRUE(save_made(*quicker, 60).has_value());
  }
  EXPECT_EQ(refusal(folder.path(), &*resumed),
            folder.path() + ": another run has saved there since the checkpoint of step 40 was read; start again");
}

}  // namespace
}  // namespace troupe::model::checkpoint_store_test
