// Goal: no command overwrites a file that it reads, whichever option names the output, and by any name: every input
// stays unchanged, and the error says what the file is.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::outputs_test {
namespace {

namespace fs = std::filesystem;

/// A folder with inputs of all kinds.
class inputs {
 public:
  inputs() {
    write("rows.csv", "y,x\n1,2\n0,3\n1,4\n0,2\n");
    write("test.csv", "y,x\n1,2\n0,3\n");
    write("columns.toml", "data = \"csv:" + path("rows.csv") +
                              "\"\nbatch-size = 1\ntrainers = 1\nepochs = 1\ncolumns = '" + columns + "'\n");
    std::string images = {0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2};
    images += std::string(16, 'x');
    write("images", images);
    write("labels", std::string{0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 2, 0});
    write("token", "0123456789abcdef0123456789abcdef");
    fs::permissions(path("token"), fs::perms::owner_read | fs::perms::owner_write);
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, std::string_view content) const {
    fs::rename(write_file("outputs_test.made", content), path(name));
  }
  /// Makes another name for the same file.
  std::string second_name_of(const std::string& file) const {
    const std::string name = path("second_name");
    fs::remove(name);
    fs::create_hard_link(file, name);
    return name;
  }

  args csv_job() const {
    return with(description_of("train --quiet --batch-size 1 --trainers 1 --epochs 1 --columns"),
                {columns, "--data", "csv:" + path("rows.csv"), "--test-file", path("test.csv")});
  }
  args images_job() const {
    return with(description_of("train --quiet --classes 3 --batch-size 2 --trainers 1 --epochs 1 --data"),
                {"idx:" + path("images") + "," + path("labels")});
  }

 private:
  static constexpr const char* columns = R"([{"name":"y","kind":"label"},{"name":"x","kind":"categorical"}])";
  model::checkpoint_folder folder_;
};

/// Expects that `command` refuses to write to `file`, which the error calls `what`, and to its second name, and leaves
/// it unchanged.
void expect_kept(const inputs& in, const std::string& file, const std::string& what,
                 const std::function<args(const std::string&)>& command) {
  const std::string before = read_file(file);
  for (const std::string& name : {file, in.second_name_of(file)}) {
    const std::string line = expect_error(run(command(name)), 2);
    EXPECT_FINDS(line, name + ": is " + what + "; name another file");
    EXPECT_EQ(read_file(file), before) << file;
  }
}

TEST(Outputs, OfTrainingAreNotWrittenOverItsInputs) {
  const inputs in;
  const auto metrics_of = [](const args& job) {
    return [job](const std::string& to) { return with(job, {"--metrics-csv", to}); };
  };
  const std::string rows = "the file that rows are read from";
  expect_kept(in, in.path("rows.csv"), rows, metrics_of(in.csv_job()));
  expect_kept(in, in.path("test.csv"), rows, metrics_of(in.csv_job()));
  expect_kept(in, in.path("images"), rows, metrics_of(in.images_job()));
  expect_kept(in, in.path("labels"), rows, metrics_of(in.images_job()));
  expect_kept(in, in.path("columns.toml"), "the job file", metrics_of({"train", in.path("columns.toml"), "--quiet"}));
  expect_kept(in, in.path("token"), "a private file that this command reads",
              metrics_of({"train", "--data", "tutorial", "--epochs", "1", "--processes", "--token-file",
                          in.path("token"), "--quiet"}));
}

/// The files of the newest checkpoint in `saved`, at step 10.
std::vector<std::string> files_of_checkpoint(const std::string& saved) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(saved))
    if (entry.is_regular_file() && entry.path().native().find("/step-000000000010") != std::string::npos)
      files.push_back(entry.path());
  EXPECT_GT(files.size(), 1U);
  return files;
}

TEST(Outputs, OfAResumedRunAreNotWrittenOverItsCheckpoint) {
  const inputs in;
  const std::string saved = in.path("saved");
  ASSERT_EQ(run({"train", "--data", "tutorial", "--epochs", "1", "--save", saved, "--quiet"}).exit_code, 0);
  const args resumed = {"train", "--data", "tutorial", "--epochs", "2", "--resume", saved, "--quiet"};
  for (const std::string& file : files_of_checkpoint(saved))
    expect_kept(in, file, "a file of the checkpoint that is read", [&](const std::string& to) {
      return with(resumed, {"--metrics-csv", to});
    });
}

TEST(Outputs, OfATraceAreNotWrittenOverTheRecording) {
  const inputs in;
  const std::string traced = in.path("traced");
  ASSERT_EQ(run({"train", "--data", "tutorial", "--epochs", "1", "--trace", "full", "--trace-dir", traced, "--quiet"})
                .exit_code,
            0);
  for (const auto& entry : fs::directory_iterator(traced))
    for (const char* format : {"--csv", "--shiviz"})
      expect_kept(in, entry.path(), "a file of the recording that is read",
                  [&](const std::string& to) { return args{"trace", "timeline", traced, format, "-o", to}; });
}

TEST(Outputs, OfAnExportAreNotWrittenOverTheCheckpoint) {
  const inputs in;
  const std::string saved = in.path("saved");
  ASSERT_EQ(run({"train", "--data", "tutorial", "--epochs", "1", "--save", saved, "--quiet"}).exit_code, 0);
  for (const std::string& file : files_of_checkpoint(saved)) {
    const std::string second_name = in.second_name_of(file);
    const std::string before = read_file(second_name);
    // The export is directed to a second name of one of the checkpoint's own files.
    const std::string line = expect_error(run({"checkpoint", "export", saved, "--force", "-o", second_name}), 2);
    EXPECT_FINDS(line, "is a file of the checkpoint that is read");
    EXPECT_EQ(read_file(file), before);
  }
}

}  // namespace
}  // namespace troupe::end_to_end::outputs_test
