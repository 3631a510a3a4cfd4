// Goal: every missing byte and changed bit of a checkpoint is detected, and a run resumes from the newest whole one.
// Method: damages each byte of a small checkpoint in turn.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.hpp"
#include "model/checkpoint/names.hpp"
#include "model/checkpoint/resume.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::model::checkpoint_torn_test {
namespace {

/// Two checkpoints; the newer one is damaged.
class TornCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(make_checkpoints(folder_.path(), {20, 40}));
    const auto whole = inspect_checkpoint(folder_.path(), 40, inspection_depth::bytes);
    ASSERT_TRUE(whole.has_value());
    ASSERT_EQ(whole->found.state, checkpoint_state::whole) << whole->found.faults.front();
    newest_ = *whole->what;
    for (const saved_file& file : newest_.manifest.files) paths_.push_back(newest_.path_of(file.name));
    paths_.push_back(folder_ / manifest_name(40));
  }

  /// The fault found in the newer checkpoint; expects that a run resumes from the older one, with a warning.
  std::string fault_found() {
    const auto seen = inspect_checkpoint(folder_.path(), 40, inspection_depth::bytes);
    if (!seen || seen->found.state != checkpoint_state::torn || seen->found.faults.size() != 1) {
      ADD_FAILURE() << "not found torn by one file";
      return "";
    }
    const std::string& fault = seen->found.faults.front();
    const auto resumed = newest_whole_checkpoint(folder_.path());
    EXPECT_TRUE(resumed.has_value()) << resumed.error().message;
    if (!resumed) return "";
    EXPECT_EQ(resumed->what.manifest.step, 20U);
    EXPECT_EQ(resumed->torn, std::vector<std::uint64_t>{40});
    EXPECT_EQ(resumed->warnings, std::vector<std::string>{"checkpoint step 40 in " + folder_.path() + " is torn (" +
                                                          fault + "); falling back to step 20"});
    return fault;
  }

  checkpoint_folder folder_;
  checkpoint newest_;
  std::vector<std::string> paths_;
};

TEST_F(TornCheckpoint, AnyChangedByteIsFound) {
  std::size_t changes = 0;
  for (const std::string& path : paths_) {
    const std::string sound = read_file(path);
    const std::string name = std::filesystem::path(path).filename();
    for (std::size_t at = 0; at < sound.size(); ++at) {
      std::string changed = sound;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
      set_content(path, changed);
      const auto seen = inspect_checkpoint(folder_.path(), 40, inspection_depth::bytes);
      ASSERT_TRUE(seen.has_value());
      ASSERT_EQ(seen->found.state, checkpoint_state::torn) << "byte " << at << " of " << name;
      ASSERT_EQ(seen->found.faults.front().find(name + ": "), 0U) << "byte " << at << " of " << name;
      if (at % 50 == 0) {
        EXPECT_NE(fault_found(), "");
      }
      ++changes;
    }
    set_content(path, sound);
  }
  EXPECT_GT(changes, 2000U);
  EXPECT_TRUE(newest_whole_checkpoint(folder_.path())->warnings.empty());
}

TEST_F(TornCheckpoint, AnyMissingByteIsFound) {
  for (const saved_file& file : newest_.manifest.files) {
    const std::string path = newest_.path_of(file.name);
    const std::string sound = read_file(path);
    for (std::size_t length = 0; length < sound.size(); length += 7) {
      ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(length)), 0);
      ASSERT_EQ(fault_found(), fmt::format("{}: {} bytes missing", file.name, sound.size() - length));
      set_content(path, sound);
    }
    // Detected by its length alone.
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(sound.size() - 1)), 0);
    EXPECT_EQ(inspect_checkpoint(folder_.path(), 40, inspection_depth::lengths)->found.state, checkpoint_state::torn);
    set_content(path, sound + "x");
    EXPECT_EQ(fault_found(), file.name + ": 1 bytes too many");
    set_content(path, sound);
  }
}

TEST_F(TornCheckpoint, ACutManifestIsFound) {
  const std::string path = folder_ / manifest_name(40);
  const std::string sound = read_file(path);
  for (std::size_t length = 0; length < sound.size(); length += 13) {
    set_content(path, sound.substr(0, length));
    EXPECT_EQ(fault_found().find(manifest_name(40) + ": "), 0U);
  }
  set_content(path, std::string(manifest_bytes_max + 1, ' '));
  EXPECT_EQ(fault_found(), manifest_name(40) + ": 8388609 bytes: must be at most 8388608");
}

TEST_F(TornCheckpoint, AMissingFileIsFound) {
  for (const saved_file& file : newest_.manifest.files) {
    const std::string path = newest_.path_of(file.name);
    const std::string sound = read_file(path);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    EXPECT_EQ(fault_found(), file.name + ": is missing");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(fault_found(), file.name + ": is not a regular file");
    ASSERT_EQ(::unlink(path.c_str()), 0);
    set_content(path, sound);
  }
}

TEST_F(TornCheckpoint, AMissingFolderIsFoundInEveryFile) {
  std::filesystem::remove_all(folder_ / newest_.manifest.folder);
  const auto seen = inspect_checkpoint(folder_.path(), 40, inspection_depth::lengths);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->found.faults,
            (std::vector<std::string>{"dense.safetensors: is missing", "table-0.shard-0-of-2.safetensors: is missing",
                                      "table-0.shard-1-of-2.safetensors: is missing",
                                      "table-1.shard-0-of-1.safetensors: is missing"}));
}

TEST_F(TornCheckpoint, SwappedShardsAreFound) {
  const std::string first = newest_.path_of(table_file_name(0, 0, 2));
  const std::string second = newest_.path_of(table_file_name(0, 1, 2));
  ASSERT_EQ(read_file(first).size(), read_file(second).size());
  std::filesystem::rename(first, folder_ / "kept");
  std::filesystem::rename(second, first);
  std::filesystem::rename(folder_ / "kept", second);
  const auto seen = inspect_checkpoint(folder_.path(), 40, inspection_depth::bytes);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->found.state, checkpoint_state::torn);
  EXPECT_EQ(seen->found.faults.size(), 2U);
}

TEST_F(TornCheckpoint, FilesOfAnotherStepAreFound) {
  const auto older = inspect_checkpoint(folder_.path(), 20, inspection_depth::lengths);
  ASSERT_TRUE(older.has_value());
  set_content(newest_.path_of("dense.safetensors"), read_file(older->what->path_of("dense.safetensors")));
  EXPECT_EQ(fault_found().find("dense.safetensors: its bytes have changed (digest "), 0U);
  set_content(folder_ / manifest_name(40), read_file(folder_ / manifest_name(20)));
  EXPECT_EQ(fault_found(), manifest_name(40) + ": is that of step 20");
}

TEST_F(TornCheckpoint, WhatIsThereBesidesIsIgnored) {
  set_content(newest_.path_of("table-0.shard-2-of-3.safetensors"), "other");
  set_content(newest_.path_of("notes.txt"), "other");
  set_content(folder_ / "step-000000000060.json.tmp", "{");
  std::filesystem::create_directory(folder_ / "step-000000000060-00000001");
  const auto resumed = newest_whole_checkpoint(folder_.path());
  ASSERT_TRUE(resumed.has_value());
  EXPECT_EQ(resumed->what.manifest.step, 40U);
  EXPECT_TRUE(resumed->warnings.empty());
  expect_made(resumed->what);
}

TEST_F(TornCheckpoint, IsRemovedByTheNextAndNeverCountedAsOne) {
  ASSERT_EQ(::truncate(newest_.path_of("dense.safetensors").c_str(), 1), 0);
  const auto resumed = newest_whole_checkpoint(folder_.path());
  ASSERT_TRUE(resumed.has_value());
  auto store = checkpoint_store::open(folder_.path(), &*resumed);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE(save_made(*store, 30).has_value());
  EXPECT_EQ(*checkpoint_steps(folder_.path()), (std::vector<std::uint64_t>{30, 20}));
  ASSERT_TRUE(save_made(*store, 40).has_value());
  EXPECT_EQ(*checkpoint_steps(folder_.path()), (std::vector<std::uint64_t>{40, 30}));
}

TEST_F(TornCheckpoint, IsReplacedWhenItsStepComesAgain) {
  ASSERT_EQ(::truncate(newest_.path_of("dense.safetensors").c_str(), 1), 0);
  const auto resumed = newest_whole_checkpoint(folder_.path());
  ASSERT_TRUE(resumed.has_value());
  auto store = checkpoint_store::open(folder_.path(), &*resumed);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  ASSERT_TRUE(save_made(*store, 40).has_value());
  ASSERT_TRUE(save_made(*store, 60).has_value());
  EXPECT_EQ(*checkpoint_steps(folder_.path()), (std::vector<std::uint64_t>{60, 40}));
  expect_made(newest_whole_checkpoint(folder_.path())->what);
}

// -- nothing to resume from ------------------------------------------------------------------------------------------

TEST_F(TornCheckpoint, NoneWholeIsAFaultThatTellsWhy) {
  set_content(newest_.path_of("dense.safetensors"), "");
  set_content(folder_ / manifest_name(20), "");
  const auto resumed = newest_whole_checkpoint(folder_.path());
  ASSERT_FALSE(resumed.has_value());
  EXPECT_EQ(resumed.error().kind, fault_kind::input);
  EXPECT_EQ(resumed.error().message,
            folder_.path() + fmt::format(": no checkpoint is whole (step 40: dense.safetensors: {} bytes missing; step "
                                         "20: step-000000000020.json: its end is missing (0 bytes are there)); start "
                                         "anew, without --resume and in another folder",
                                         newest_.manifest.files[0].length));
}

TEST(ResumeFrom, NowhereIsAFaultThatSaysWhatToTry) {
  const checkpoint_folder folder;
  const auto message = [](const std::string& path) { return newest_whole_checkpoint(path).error().message; };
  EXPECT_EQ(message(folder.path()),
            folder.path() + ": holds no checkpoint (no file step-*.json); is it the folder that --save was given?");
  EXPECT_EQ(message(folder / "none"),
            folder / "none" + ": No such file or directory: must be a folder with checkpoints, as --save writes it");
  set_content(folder / "file", "");
  EXPECT_EQ(message(folder / "file"),
            folder / "file" + ": Not a directory: must be a folder with checkpoints, as --save writes it");
  EXPECT_EQ(newest_whole_checkpoint(folder / "file").error().kind, fault_kind::input);
}

// Another version's checkpoint may be sound: resuming from an older one would remove it.
TEST(ResumeFrom, ACheckpointOfAnotherVersionIsRefused) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {20, 40});
  const std::string path = folder / manifest_name(40);
  std::string text = read_file(path);
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 6");
  running_digest digest;
  digest.add(std::as_bytes(std::span(text).first(text.size() - 36)));
  set_content(path, text.substr(0, text.size() - 36) + digest.hex() + "\"\n}\n");
  const auto resumed = newest_whole_checkpoint(folder.path());
  ASSERT_FALSE(resumed.has_value());
  EXPECT_EQ(resumed.error().message,
            "checkpoint step 40 in " + folder.path() +
                " cannot be read: step-000000000040.json: version 6: this version of troupe reads 1 to 5; a newer "
                "troupe wrote it, use that one");
  EXPECT_EQ(inspect_checkpoint(folder.path(), 40, inspection_depth::lengths)->found.state,
            checkpoint_state::unreadable);
}

TEST(ResumeFrom, ACheckpointThatWasRemovedMeanwhileIsNone) {
  const checkpoint_folder folder;
  EXPECT_FALSE(inspect_checkpoint(folder.path(), 40, inspection_depth::bytes).has_value());
}

// -- the job ---------------------------------------------------------------------------------------------------------

/// The error for resuming from step `saved` of a job with `accumulate`, for `total_steps` in all.
std::optional<std::string> resumed(std::uint64_t saved, std::uint64_t total_steps, const char* accumulate,
                                   const std::string& data_digest = {}) {
  const job what = *parse_job({{"data", "tutorial"}, {"accumulate", accumulate}});
  checkpoint_manifest from;
  from.step = saved;
  from.data_digest = data_digest;
  return check_resumed(from, what, **open_dataset(what), total_steps);
}

TEST(ResumeFrom, ARunThatIsOverOrEndedWithinAnOptimizerStepIsRefused) {
  EXPECT_EQ(resumed(40, 41, "1"), std::nullopt);
  EXPECT_EQ(resumed(40, 40, "3"), std::nullopt) << "nothing is left to do";
  EXPECT_EQ(resumed(39, 60, "3"), std::nullopt);
  EXPECT_EQ(resumed(40, 39, "1"),
            "--resume: the checkpoint is of step 40, and the job ends after 39; use more --epochs or --steps");
  EXPECT_EQ(resumed(40, 60, "3"),
            "--resume: the checkpoint of step 40 is of a run that ended within --accumulate 3: its last optimizer step "
            "had fewer batches, so it cannot continue; to continue from the checkpoint before it, remove "
            "step-000000000040.json");
}

TEST(ResumeFrom, OtherDataAreRefused) {
  EXPECT_EQ(resumed(40, 60, "1", "0123"),
            "--data tutorial: is not what it was: the rows differ from those that the checkpoint's run had read; bring "
            "them back, or start anew");
}

/// The digest says whether the rows are the same.
TEST(ResumeFrom, DataFilesMayHaveMoved) {
  checkpoint_manifest from;
  from.settings = {{"data", "csv:a/rows.csv"}, {"test-file", "a/test.csv"}, {"seed", "1"}};
  from.data_digest = "0123";
  const std::vector<setting> moved = {{"data", "csv:b/rows.csv.gz"}, {"test-file", "b/test.csv"}, {"seed", "2"}};
  const std::vector<setting> expected = {moved[0], moved[1], {"seed", "1"}};
  EXPECT_EQ(settings_with_files_of(from, moved), expected);
  EXPECT_EQ(settings_with_files_of(from, {}), from.settings);
  const std::vector<setting> of_another_kind = {{"data", "criteo:a/rows.csv"}, {"test-file", ""}};
  EXPECT_EQ(settings_with_files_of(from, of_another_kind), from.settings);
  from.data_digest.clear();
  EXPECT_EQ(settings_with_files_of(from, moved), from.settings) << "nothing distinguishes the rows";
}

TEST(ResumeFrom, AnotherJobIsToldByItsFirstDifference) {
  const std::vector<setting> saved = {{"data", "adult"}, {"servers", "1"}, {"seed", "1"}, {"dim", "8"}};
  EXPECT_EQ(first_difference(saved, saved), std::nullopt);
  auto now = saved;
  now[1].second = "3";
  EXPECT_EQ(first_difference(saved, now), std::nullopt);
  now[3].second = "16";
  now[2].second = "2";
  EXPECT_EQ(first_difference(saved, now),
            "--seed 2: the run of the checkpoint has --seed 1; continue with the same job, or start anew without "
            "--resume");
  EXPECT_EQ(first_difference(saved, std::span(saved).first(3))
                .value()
                .find("no --dim: the run of the checkpoint has --dim 8; "),
            0U);
  EXPECT_EQ(first_difference(std::span(saved).first(3), saved)
                .value()
                .find("--dim 8: the run of the checkpoint has no --dim; "),
            0U);
  const std::vector<std::string_view> none;
  now = saved;
  now[1].second = "3";
  EXPECT_TRUE(first_difference(saved, now, none).has_value());
}

}  // namespace
}  // namespace troupe::model::checkpoint_torn_test
