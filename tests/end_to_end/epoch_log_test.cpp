// Goal: --metrics-csv and --tensorboard hold the contents of the JSON events; a resumed run's files equal an unbroken
// run's; a refused run touches no file; and a file that cannot be written does not end a run, but sets its exit code.
// Method: runs with all three, files of several runs beside those of one, existing files, and full files.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "tests/apps/event_file.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::epoch_log_test {
namespace {

/// Adult in epochs of 9 steps; `more`: options at the end.
args adult(const std::string& steps, const args& more) {
  return with({"train", "--quiet", "--batch-size", "2000", "--steps", steps}, more);
}

/// Options of a run that resumes from `from`, if it holds a checkpoint, and saves there.
args saving(const model::checkpoint_folder& from, const args& more) {
  args all = {"--save", from.path()};
  if (!model::entries_of(from.path()).empty()) all.insert(all.end(), {"--resume", from.path()});
  return with(all, more);
}

/// The lines without measured times.
std::vector<std::string> timeless_lines(const std::string& csv) {
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(read_file(csv))) {
    auto cells = split(line, ',');
    EXPECT_EQ(cells.size(), 13u) << line;
    if (cells.size() == 13) cells.erase(cells.begin() + 4, cells.begin() + 6);
    lines.push_back(fmt::format("{}", fmt::join(cells, ",")));
  }
  return lines;
}

std::vector<apps::event> events_in(const std::string& folder) {
  const auto names = model::entries_of(folder);
  EXPECT_EQ(names.size(), 1u) << folder;
  return names.empty() ? std::vector<apps::event>()
                       : apps::event_file_reader(read_file(folder + "/" + names.front())).read();
}

/// The steps that TensorBoard shows for event files, read in order: a session's start removes earlier values of its
/// step and later ones.
std::vector<std::uint64_t> steps_shown(const std::vector<std::string>& folders) {
  std::vector<std::uint64_t> steps;
  for (const std::string& folder : folders) {
    for (const apps::event& one : events_in(folder)) {
      if (one.session_status == 1) std::erase_if(steps, [&](std::uint64_t step) { return step >= one.step; });
      if (!one.scalars.empty()) steps.push_back(one.step);
    }
  }
  return steps;
}

TEST(MetricsCsv, IntoAFifoThatNobodyReadsAreRefused) {
  const model::checkpoint_folder folder;
  const std::string fifo = folder / "metrics";
  ASSERT_EQ(::mkfifo(fifo.c_str(), S_IRUSR | S_IWUSR), 0);
  const std::string line = expect_error(run(adult("1", {"--metrics-csv", fifo})), 2);
  EXPECT_FINDS(line, "is a FIFO without a reader");
}

TEST(MetricsCsv, HasTheNumbersOfTheEvents) {
  const std::string csv = write_file("metrics.csv", "something else");
  const outcome result = run({"train", "--epochs", "3", "--eval-every", "2", "--metrics-csv", csv, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto events = lines_of(result.out);
  const auto lines = lines_of(read_file(csv));
  ASSERT_EQ(events.size(), 4u);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            "epoch,step,steps,samples,seconds,samples_per_s,loss,auc,accuracy,log_loss,calibration,test_loss,rmse");
  for (std::size_t epoch = 1; epoch <= 3; ++epoch) {
    const auto number = [&](const char* field) {
      const std::string text = number_text(events[epoch - 1], field);
      return text == "null" ? std::string() : text;
    };
    EXPECT_EQ(lines[epoch], number("epoch") + "," + std::to_string(128 * epoch) + "," + number("steps") + ",32561," +
                                number("seconds") + "," + number("samples_per_s") + "," + number("loss") + "," +
                                number("auc") + "," + number("accuracy") + "," + number("log_loss") + "," +
                                number("calibration") + "," + number("test_loss") + "," + number("rmse"));
    EXPECT_EQ(number("test_loss"), number("log_loss"));
    EXPECT_EQ(number("rmse"), "");
    EXPECT_EQ(number("auc").empty(), epoch == 1) << "evaluated after every second epoch, and the last one";
  }
}

TEST(TensorBoard, HasTheNumbersOfTheEvents) {
  const std::string folder = write_file("board", "");
  std::filesystem::remove(folder);
  const outcome result = run({"train", "--epochs", "2", "--tensorboard", folder, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 3u);
  const auto events = events_in(folder);
  ASSERT_EQ(events.size(), 4u);
  for (std::size_t epoch = 1; epoch <= 2; ++epoch) {
    const auto number = [&](const char* field) {
      return static_cast<float>(lines[epoch - 1].at(field).to_number<double>());
    };
    EXPECT_EQ(events[epoch + 1].step, 128 * epoch);
    EXPECT_EQ(events[epoch + 1].scalars, (std::map<std::string, float>{{"train/loss", number("loss")},
                                                                       {"train/samples_per_s", number("samples_per_s")},
                                                                       {"test/auc", number("auc")},
                                                                       {"test/accuracy", number("accuracy")},
                                                                       {"test/log_loss", number("log_loss")},
                                                                       {"test/calibration", number("calibration")},
                                                                       {"test/loss", number("test_loss")}}));
  }
}

TEST(MetricsCsv, OfARunBrokenWithinEpochsIsThatOfAnUnbrokenOne) {
  const model::checkpoint_folder checkpoints;
  const model::checkpoint_folder logs;
  const std::string whole = logs / "whole.csv";
  const std::string broken = logs / "broken.csv";
  ASSERT_EQ(run(adult("23", {"--metrics-csv", whole})).exit_code, 0);
  for (const char* steps : {"4", "5", "9", "13"})
    ASSERT_EQ(run(adult(steps, saving(checkpoints, {"--metrics-csv", broken}))).exit_code, 0);
  EXPECT_EQ(timeless_lines(broken).back().substr(0, 7), "2,13,4,");
  // The second time the file also has lines of later steps.
  for (int time = 0; time < 2; ++time) {
    ASSERT_EQ(run(adult("23", {"--resume", checkpoints.path(), "--metrics-csv", broken})).exit_code, 0);
    EXPECT_EQ(timeless_lines(broken), timeless_lines(whole));
  }
}

TEST(TensorBoard, OfARunBrokenWithinEpochsShowsTheStepsOfAnUnbrokenOne) {
  const model::checkpoint_folder checkpoints;
  const model::checkpoint_folder logs;
  std::vector<std::string> folders;
  for (const char* steps : {"4", "13", "23"}) {
    folders.push_back(logs / steps);
    ASSERT_EQ(run(adult(steps, saving(checkpoints, {"--tensorboard", folders.back()}))).exit_code, 0);
  }
  EXPECT_EQ(steps_shown(folders), (std::vector<std::uint64_t>{9, 18, 23}));
}

TEST(RefusedRun, LeavesFilesAsTheyWere) {
  const model::checkpoint_folder folder;
  const std::string kept = folder / "kept.csv";
  const std::string saved = folder / "saved";
  ASSERT_EQ(run(adult("4", {"--save", saved})).exit_code, 0);
  ASSERT_EQ(run(adult("13", {"--resume", saved, "--metrics-csv", kept})).exit_code, 0);
  const std::string before = read_file(kept);
  const std::string new_checkpoints = folder / "new";
  const std::string new_events = folder / "events";
  const auto expect_untouched = [&](const outcome& refused, const char* why) {
    EXPECT_FINDS(expect_error(refused, 2), why) << refused.err;
    EXPECT_EQ(read_file(kept), before) << why;
    EXPECT_EQ(model::entries_of(folder.path()), (std::vector<std::string>{"kept.csv", "saved"})) << why;
  };
  const args outputs = {"--metrics-csv", kept, "--save", new_checkpoints, "--tensorboard", new_events};
  const auto refused = [&](const args& more) { return run(with(with({"train"}, more), outputs)); };
  expect_untouched(refused({"--data", "criteo:" + folder / "none"}), "none: No such file");
  expect_untouched(refused({"--data", "synthetic", "--rows", "1000000000000", "--dim", "1"}),
                   "GiB of memory are available");
  expect_untouched(refused({"--resume", saved, "--steps", "3"}), "of step 4, and the job ends after 3");
  expect_untouched(run({"train", "--metrics-csv", kept, "--tensorboard", kept}), "Not a directory");
  expect_untouched(refused({"--trace-dir", "/proc/none"}), "--trace-dir /proc/none");
  launch with_short_token;
  with_short_token.environment = {{"TROUPE_PAGE_TOKEN", "x"}, {"TMPDIR", folder / "saved"}};
  const auto in_saved = model::entries_of(saved);
  expect_untouched(run(with({"train", "--page", "--trace", "ring"}, outputs), with_short_token), "TROUPE_PAGE_TOKEN");
  for (const std::string& entry : model::entries_of(saved)) {
    if (std::ranges::find(in_saved, entry) != in_saved.end()) continue;
    EXPECT_EQ(model::entries_of(saved + "/" + entry), std::vector<std::string>()) << "traces of a run that never was";
  }
}

TEST(MetricsCsv, IsNotWrittenOverTheRows) {
  const model::checkpoint_folder folder;
  const std::string rows = folder / "rows.csv";
  std::ofstream(rows) << "y,x\n1,2\n0,3\n1,4\n";
  const auto job = [](const std::string& data, const args& more) {
    const char* const columns = R"([{"name":"y","kind":"label"},{"name":"x","kind":"categorical"}])";
    return with(with(description_of("train --batch-size 1 --trainers 1 --data"), {"csv:" + data, "--columns", columns}),
                more);
  };
  const std::string why = "--metrics-csv " + rows + ": is the file that rows are read from";
  const std::string other = folder / "other.csv";
  std::filesystem::copy_file(rows, other);
  for (const args& order : {job(rows, {"--metrics-csv", rows}), job(folder / "./rows.csv", {"--metrics-csv", rows}),
                            job(other, {"--test-file", rows, "--metrics-csv", rows})}) {
    EXPECT_FINDS(expect_error(run(order), 2), why);
    EXPECT_EQ(read_file(rows), "y,x\n1,2\n0,3\n1,4\n");
  }
}

TEST(MetricsCsv, ThatIsFullDoesNotEndTheRun) {
  const outcome result =
      run({"train", "--data", "tutorial", "--epochs", "30", "--metrics-csv", "/dev/full", "--quiet"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "troupe: error: --metrics-csv /dev/full: No space left on device; training continues without it\n");
  EXPECT_FINDS(result.out, "weights digest");
}

TEST(MetricsCsv, ThatIsFullIsAnEventToo) {
  const outcome result = run({"train", "--data", "tutorial", "--epochs", "3", "--metrics-csv", "/dev/full", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const auto events = json_lines(result.out);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].at("event"), "error");
  EXPECT_EQ(events[0].at("code"), "run");
  EXPECT_EQ(events[4].at("event"), "done");
}

}  // namespace
}  // namespace troupe::end_to_end::epoch_log_test
