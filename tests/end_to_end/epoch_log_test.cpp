// Goal: --metrics-csv and --tensorboard hold what the JSON events say, and a file that cannot be written any more does
// not end a run, but its exit code says so. Method: runs with all three, and files that are full.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/apps/event_file.hpp"
#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end {
namespace {

TEST(MetricsCsv, HasTheNumbersOfTheEvents) {
  const std::string csv = write_file("metrics.csv", "something else");
  const outcome result = run({"train", "--epochs", "3", "--eval-every", "2", "--metrics-csv", csv, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto events = lines_of(result.out);
  const auto lines = lines_of(read_file(csv));
  ASSERT_EQ(events.size(), 4u);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "epoch,step,steps,samples,seconds,samples_per_s,loss,auc,accuracy,log_loss,calibration");
  for (std::size_t epoch = 1; epoch <= 3; ++epoch) {
    const auto number = [&](const char* field) {
      const std::string text = number_text(events[epoch - 1], field);
      return text == "null" ? std::string() : text;
    };
    EXPECT_EQ(lines[epoch], number("epoch") + "," + std::to_string(128 * epoch) + "," + number("steps") + ",32561," +
                                number("seconds") + "," + number("samples_per_s") + "," + number("loss") + "," +
                                number("auc") + "," + number("accuracy") + "," + number("log_loss") + "," +
                                number("calibration"));
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
  std::vector<event> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    events = event_file_reader(read_file(entry.path().string())).read();
  }
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
                                                                       {"test/calibration", number("calibration")}}));
  }
}

TEST(MetricsCsv, ThatIsFullDoesNotEndTheRun) {
  const outcome result =
      run({"train", "--data", "tutorial", "--epochs", "30", "--metrics-csv", "/dev/full", "--quiet"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "troupe: error: --metrics-csv /dev/full: No space left on device; training goes on without it\n");
  EXPECT_NE(result.out.find("weights digest"), std::string::npos);
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
}  // namespace troupe::end_to_end
