// Goal: whatever stops a save, at any time, a whole checkpoint remains to resume from, and the next save works. Method:
// each system call of a save fails, one after the other; then the process dies at each.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "model/checkpoint/names.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/model/watched_system.hpp"

namespace troupe::model::checkpoint_failure_test {
namespace {

/// The step that a run would resume from; expects that its tensors are those of that step.
std::uint64_t step_to_go_on_from(const std::string& directory) {
  const auto found = newest_whole_checkpoint(directory);
  if (!found) {
    ADD_FAILURE() << found.error().message;
    return 0;
  }
  EXPECT_TRUE(found->warnings.empty()) << found->warnings.front();
  expect_made(found->what);
  return found->what.manifest.step;
}

/// Does what a resumed run does.
void go_on_and_save(const std::string& directory, std::uint64_t step) {
  const auto resumed = newest_whole_checkpoint(directory);
  ASSERT_TRUE(resumed.has_value());
  auto store = checkpoint_store::open(directory, &*resumed);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE(save_made(*store, step).has_value());
}

/// Expects that the folder has only these two checkpoints.
void expect_only(const std::string& directory, std::uint64_t older, std::uint64_t newer) {
  const auto steps = checkpoint_steps(directory);
  ASSERT_TRUE(steps.has_value());
  EXPECT_EQ(*steps, (std::vector<std::uint64_t>{newer, older}));
  EXPECT_EQ(entries_of(directory).size(), 5U);
}

TEST(FailingSave, LeavesTheOneBeforeAtEveryCall) {
  bool saved = false;
  std::uint64_t failures = 0;
  for (std::uint64_t number = 0; !saved; ++number) {
    ASSERT_LT(number, 1000U);
    const checkpoint_folder folder;
    auto store = checkpoint_store::open(folder.path(), nullptr);
    ASSERT_TRUE(store.has_value());
    ASSERT_TRUE(save_made(*store, 20).has_value());
    ASSERT_TRUE(save_made(*store, 40).has_value());
    {
      const system_watch watch(at_call::fail, number);
      const auto done = save_made(*store, 60);
      store->abandon();
      // A failed removal of the oldest checkpoint is not a failed save.
      saved = done.has_value() && system_watch::count() <= number;
      if (!done) {
        ++failures;
        EXPECT_EQ(done.error().kind, fault_kind::run);
        EXPECT_NE(done.error().message.find("No space left on device"), std::string::npos) << done.error().message;
        EXPECT_NE(done.error().message.find(folder.path()), std::string::npos) << done.error().message;
      }
    }
    const std::uint64_t step = step_to_go_on_from(folder.path());
    EXPECT_TRUE(step == 40 || step == 60) << "call " << number;
    ASSERT_TRUE(save_made(*store, 80).has_value()) << "after call " << number;
    expect_only(folder.path(), step, 80);
    EXPECT_EQ(step_to_go_on_from(folder.path()), 80U);
  }
  // Creating, writing, syncing and closing four files and a manifest, and calls around them.
  EXPECT_GT(failures, 20U);
}

TEST(FailingSave, LeavesOneToGoOnFromWhenTheProcessDiesAtAnyCall) {
  int status = 1;
  std::uint64_t deaths = 0;
  for (std::uint64_t number = 0; status != 0; ++number) {
    ASSERT_LT(number, 1000U);
    const checkpoint_folder folder;
    make_checkpoints(folder.path(), {20, 40});
    const auto resumed = newest_whole_checkpoint(folder.path());
    ASSERT_TRUE(resumed.has_value());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = checkpoint_store::open(folder.path(), &*resumed);
      const system_watch watch(at_call::die, number);
      if (!store) ::_exit(1);
      const auto saved = save_made(*store, 60);
      ::_exit(saved ? 0 : 1);
    }
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == died);
    deaths += WEXITSTATUS(status) == died ? 1 : 0;

    const std::uint64_t step = step_to_go_on_from(folder.path());
    EXPECT_TRUE(step == 40 || step == 60) << "call " << number;
    go_on_and_save(folder.path(), 80);
    expect_only(folder.path(), step, 80);
  }
  EXPECT_GT(deaths, 20U);
}

// A power cut cannot be tested here; but the order of the calls can be checked.
TEST(FailingSave, CommitsNothingThatIsNotOnTheDisk) {
  const checkpoint_folder folder;
  auto store = checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE(save_made(*store, 20).has_value());
  ASSERT_TRUE(save_made(*store, 40).has_value());
  std::vector<system_call> calls;
  {
    const system_watch watch(at_call::log);
    ASSERT_TRUE(save_made(*store, 60).has_value());
    calls = system_watch::calls();
  }
  const auto last = [&calls](const std::string& name, const std::string& path) {
    std::size_t found = 0;
    for (std::size_t at = 0; at < calls.size(); ++at) {
      if (calls[at].name == name && calls[at].path == path) found = at + 1;
    }
    EXPECT_GT(found, 0U) << name << " " << path;
    return found;
  };
  const auto seen = inspect_checkpoint(folder.path(), 60, inspection_depth::lengths);
  ASSERT_TRUE(seen.has_value() && seen->what.has_value());
  const checkpoint& newest = *seen->what;
  const std::string files = folder / newest.manifest.folder;
  const std::size_t committed = last("rename", folder / manifest_name(60));
  std::vector<std::string> written(1, folder / uncommitted_manifest_name(60));
  for (const saved_file& file : newest.manifest.files) written.push_back(newest.path_of(file.name));
  for (const std::string& path : written) {
    EXPECT_LT(last("write", path), last("fsync", path));
    EXPECT_LT(last("fsync", path), committed);
    EXPECT_LT(last("open", path), last("write", path));
  }
  EXPECT_LT(last("open", newest.path_of(newest.manifest.files.back().name)), last("fsync", files));
  EXPECT_LT(last("fsync", files), committed);
  EXPECT_LT(committed, last("fsync", folder.path()));
  // The oldest checkpoint is removed once the newest is safe, its manifest first.
  EXPECT_LT(last("fsync", folder.path()), last("unlink", folder / manifest_name(20)));
  for (std::size_t at = 0; at < calls.size(); ++at) {
    if (calls[at].name == "unlink") {
      EXPECT_EQ(at + 1, last("unlink", folder / manifest_name(20)));
      break;
    }
  }
}

TEST(FailingSave, OnAFullDiskNamesTheFileAndTheBytesWanted) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {20});
  const auto resumed = newest_whole_checkpoint(folder.path());
  ASSERT_TRUE(resumed.has_value());
  auto store = checkpoint_store::open(folder.path(), &*resumed);
  ASSERT_TRUE(store.has_value());
  made_content large;
  large.tables.front().rows = 160'000;

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1'000'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto done = save_made(*store, 40, large);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().kind, fault_kind::run);
  EXPECT_NE(done.error().message.find("/table-0.shard-0-of-2.safetensors: File too large after 1000000 of 1280"),
            std::string::npos)
      << done.error().message;
  store->abandon();
  EXPECT_EQ(step_to_go_on_from(folder.path()), 20U);
  EXPECT_EQ(entries_of(folder.path()).size(), 3U);
  ASSERT_TRUE(save_made(*store, 40, large).has_value());
  EXPECT_EQ(newest_whole_checkpoint(folder.path())->what.manifest.step, 40U);
}

// Falling back could remove a sound checkpoint in the end.
TEST(FailingRead, IsNeverTakenForATornCheckpoint) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {20, 40});
  std::uint64_t failures = 0;
  for (;; ++failures) {
    const failing_read one(failures);
    const auto found = newest_whole_checkpoint(folder.path());
    if (!failing_read::happened()) {
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(found->what.manifest.step, 40U);
      break;
    }
    ASSERT_FALSE(found.has_value()) << "call " << failures;
    EXPECT_NE(found.error().message.find("checkpoint step 40 in " + folder.path() + " cannot be read: "),
              std::string::npos)
        << found.error().message;
    EXPECT_NE(found.error().message.find("Input/output error"), std::string::npos) << found.error().message;
  }
  // The manifest, and each of four files for its digest and for its header, which needs two reads: 2 + 4 (2 + 3).
  EXPECT_EQ(failures, 22U);
}

}  // namespace
}  // namespace troupe::model::checkpoint_failure_test
