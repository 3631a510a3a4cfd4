// Goal: users see what a run has saved and whether it is whole, and can read it elsewhere. Method: whole and torn
// checkpoints, made without a run.

#include <gtest/gtest.h>

#include "model/checkpoint/names.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/model/strict_safetensors.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::checkpoint_test {
namespace {

/// Two checkpoints, steps 20 and 40.
class CheckpointCommand : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(model::make_checkpoints(saved(), {20, 40})); }

  std::string saved() const { return folder_ / "saved"; }

  /// Removes the last byte of the newest checkpoint's dense file.
  void tear() const {
    const auto newest = model::inspect_checkpoint(saved(), 40, model::inspection_depth::lengths);
    const std::string path = newest->what->path_of(model::dense_file_name);
    const std::string content = read_file(path);
    model::set_content(path, content.substr(0, content.size() - 1));
  }

  model::checkpoint_folder folder_;
};

TEST_F(CheckpointCommand, ListTellsWhatThereIs) {
  const outcome result = run({"checkpoint", "list", saved(), "--json"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& line : lines) {
    EXPECT_EQ(line.at("event"), "checkpoint");
    EXPECT_EQ(line.at("step"), &line == &lines[0] ? 40 : 20);
    EXPECT_EQ(line.at("files"), 4);
    EXPECT_EQ(line.at("whole"), true);
    EXPECT_TRUE(line.at("faults").as_array().empty());
  }
  std::uint64_t bytes = 0;
  const auto newest = model::inspect_checkpoint(saved(), 40, model::inspection_depth::lengths);
  for (const std::string& name : model::entries_of(saved() + "/" + newest->what->manifest.folder)) {
    bytes += read_file(newest->what->path_of(name)).size();
  }
  EXPECT_EQ(lines[0].at("bytes").to_number<std::uint64_t>(), bytes);

  const auto table = lines_of(run({"checkpoint", "list", saved()}).out);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_FINDS(table[0], "step  files") << table[0];
  EXPECT_FINDS(table[1], "40      4") << table[1];
  EXPECT_FINDS(table[2], "whole") << table[2];
}

TEST_F(CheckpointCommand, ListMarksWhatIsTorn) {
  tear();
  const outcome result = run({"checkpoint", "list", saved(), "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("whole"), false);
  EXPECT_EQ(lines[0].at("faults").at(0), "dense.safetensors: 1 bytes missing");
  EXPECT_EQ(lines[1].at("whole"), true);
}

TEST_F(CheckpointCommand, VerifyFindsNothingWhereAllIsWell) {
  const outcome result = run({"checkpoint", "verify", saved(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const auto& line : lines) {
    EXPECT_EQ(line.at("event"), "verify");
    EXPECT_EQ(line.at("ok"), true);
    EXPECT_TRUE(line.at("faults").as_array().empty());
  }
  EXPECT_EQ(run({"checkpoint", "verify", saved()}).exit_code, 0);
}

TEST_F(CheckpointCommand, VerifyFindsAFlippedBit) {
  const auto newest = model::inspect_checkpoint(saved(), 40, model::inspection_depth::lengths);
  const std::string path = newest->what->path_of(model::table_file_name(0, 1, 2));
  std::string content = read_file(path);
  content.back() = static_cast<char>(content.back() ^ 1);
  model::set_content(path, content);
  EXPECT_EQ(run({"checkpoint", "list", saved()}).exit_code, 0);

  const outcome result = run({"checkpoint", "verify", saved(), "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("step"), 40);
  EXPECT_EQ(lines[0].at("ok"), false);
  const auto fault = lines[0].at("faults").at(0).as_string();
  EXPECT_EQ(fault.find("table-0.shard-1-of-2.safetensors: its bytes have changed"), 0u) << fault;
  EXPECT_EQ(lines[1].at("ok"), true);

  const outcome text = run({"checkpoint", "verify", saved()});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_FINDS(text.out, "torn\n");
  EXPECT_FINDS(text.out, "table-0.shard-1-of-2.safetensors: its bytes have changed");
}

TEST_F(CheckpointCommand, NothingThereIsAnError) {
  std::filesystem::create_directory(folder_ / "empty");
  model::set_content(folder_ / "file", "");
  for (const std::string action : {"list", "verify"}) {
    EXPECT_FINDS(expect_error(run({"checkpoint", action, folder_ / "empty"}), 2), "holds no checkpoint");
    EXPECT_FINDS(expect_error(run({"checkpoint", action, folder_ / "none"}), 2), "No such file or directory");
    EXPECT_FINDS(expect_error(run({"checkpoint", action, folder_ / "file"}), 2), "Not a directory");
  }
}

TEST_F(CheckpointCommand, ExportWritesAPlainFile) {
  const std::string file = folder_ / "model.safetensors";
  const outcome result = run({"checkpoint", "export", saved(), "-o", file, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto event = last_event(result, "export");
  EXPECT_EQ(event.at("step"), 40);
  EXPECT_EQ(std::string(event.at("file").as_string()), file);
  const std::string content = read_file(file);
  EXPECT_EQ(event.at("bytes").to_number<std::uint64_t>(), content.size());
  const model::plain_file read = model::read_strictly(content);
  EXPECT_EQ(read.metadata.at("step"), "40");
  EXPECT_EQ(read.tensors.at("table.0.weight").shape, (std::vector<std::uint64_t>{10, 3}));
  EXPECT_EQ(read.tensors.count("top.0.weight.state.0"), 1u);

  const std::string line = expect_error(run({"checkpoint", "export", saved(), "-o", file}), 2);
  EXPECT_FINDS(line, "--force");
  EXPECT_EQ(read_file(file), content);

  const outcome again = run({"checkpoint", "export", saved(), "-o", file, "--force", "--step", "20", "--weights-only"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out.find("step 20 as " + file + ": "), 0u) << again.out;
  const model::plain_file older = model::read_strictly(read_file(file));
  EXPECT_EQ(older.metadata.at("step"), "20");
  EXPECT_EQ(older.tensors.size(), 4u);
}

TEST_F(CheckpointCommand, ExportTakesTheNewestWholeOneAndSaysSo) {
  tear();
  const std::string file = folder_ / "model.safetensors";
  const outcome result = run({"checkpoint", "export", saved(), "-o", file, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_event(result, "export").at("step"), 20);
  EXPECT_EQ(result.err, "troupe: warning: checkpoint step 40 in " + saved() +
                            " is torn (dense.safetensors: 1 bytes missing); falling back to step 20\n");

  const std::string torn =
      expect_error(run({"checkpoint", "export", saved(), "--step", "40", "-o", file, "--force"}), 2);
  EXPECT_FINDS(torn, "is torn: dense.safetensors: 1 bytes missing");
  const std::string other = expect_error(run({"checkpoint", "export", saved(), "--step", "30", "-o", file}), 2);
  EXPECT_FINDS(other, "--step 30: ");
  EXPECT_FINDS(other, "holds step 40, 20");
}

TEST_F(CheckpointCommand, ExportNeedsAPlaceToWriteTo) {
  const std::string line = expect_error(run({"checkpoint", "export", saved(), "-o", folder_ / "none/file"}), 2);
  EXPECT_FINDS(line, "there is no folder ");
  // A full disk, for example: not the command line's fault.
  EXPECT_NE(expect_error(run({"checkpoint", "export", saved(), "-o", "/proc/self/none"}), 1).find("creating it"),
            std::string::npos);
}

}  // namespace
}  // namespace troupe::end_to_end::checkpoint_test
