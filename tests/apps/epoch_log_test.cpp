// What --metrics-csv and --tensorboard write, and how existing files are handled.

#include "apps/epoch_log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include "tests/apps/event_file.hpp"
#include "tests/read_file.hpp"

namespace troupe::apps::epoch_log_test {
namespace {

constexpr const char* header =
    "epoch,step,steps,samples,seconds,samples_per_s,loss,auc,accuracy,log_loss,calibration,test_loss,rmse\n";

class EpochLog : public testing::Test {
 protected:
  EpochLog() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~EpochLog() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  /// Returns the events of the only file in a folder, or of the one that is not `before`.
  static std::vector<event> events_in(const std::string& folder, const std::string& before = "") {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().string() == before) continue;
      EXPECT_EQ(found, "") << "one file too many";
      found = entry.path().string();
      EXPECT_NE(found.find("/events.out.tfevents."), std::string::npos) << found;
    }
    return event_file_reader(read_file(found)).read();
  }

 private:
  std::string folder_ = testing::TempDir() + "troupe-apps-XXXXXX";
};

actors::epoch_summary some_epoch(std::uint64_t number) {
  actors::epoch_summary epoch;
  epoch.epoch = number;
  epoch.step = number * 100;
  epoch.steps = 100;
  epoch.samples = 51200;
  epoch.seconds = 0.25;
  epoch.figures.loss = 1.0 / 3;
  epoch.figures.auc = 0.9;
  epoch.figures.accuracy = 0.75;
  epoch.figures.log_loss = 0.1;
  epoch.figures.calibration = 1.5;
  epoch.figures.test_loss = 0.0625;
  epoch.figures.rmse = 0.25;
  return epoch;
}

actors::epoch_summary without_evaluation(std::uint64_t number) {
  actors::epoch_summary epoch = some_epoch(number);
  epoch.figures = model::epoch_figures{epoch.figures.loss, {}, {}, {}, {}, {}, {}};
  return epoch;
}

constexpr const char* first_line = "1,100,100,51200,0.25,204800,0.3333333333333333,0.9,0.75,0.1,1.5,0.0625,0.25\n";
constexpr const char* second_line = "2,200,100,51200,0.25,204800,0.3333333333333333,,,,,,\n";

TEST_F(EpochLog, CsvHasALineForEachEpochAsSoonAsItIsOver) {
  write("m.csv", "what was there before");
  auto log = open_metrics_csv(path("m.csv"), std::nullopt);
  ASSERT_TRUE(log);
  EXPECT_TRUE((*log)->add(some_epoch(1)));
  EXPECT_EQ(read_file(path("m.csv")), std::string(header) + first_line);
  EXPECT_TRUE((*log)->add(without_evaluation(2)));
  EXPECT_EQ(read_file(path("m.csv")), std::string(header) + first_line + second_line);
}

/// The metrics "mae" and "f1" of a job.
nn::own_metrics some_metrics() {
  nn::own_metrics made;
  for (const char* name : {"mae", "f1"})
    made.push_back(std::make_shared<const nn::own_metric>(nn::own_metric{name, nn::loss_form::values, {}}));
  return made;
}

actors::epoch_summary with_metrics(std::uint64_t number) {
  actors::epoch_summary epoch = some_epoch(number);
  epoch.figures.own.add("mae", 0.5);
  epoch.figures.own.add("f1", std::nullopt);
  return epoch;
}

TEST_F(EpochLog, CsvHasAColumnForEachMetricOfTheProgram) {
  const std::string first_lines = std::string(header).substr(0, std::string(header).size() - 1) + ",mae,f1\n" +
                                  std::string(first_line).substr(0, std::string(first_line).size() - 1) + ",0.5,\n";
  {
    auto log = open_metrics_csv(path("m.csv"), std::nullopt, some_metrics());
    ASSERT_TRUE(log);
    ASSERT_TRUE((*log)->add(with_metrics(1)));
    EXPECT_EQ(read_file(path("m.csv")), first_lines);
    ASSERT_TRUE((*log)->add(with_metrics(2)));
  }
  ASSERT_TRUE(open_metrics_csv(path("m.csv"), 199, some_metrics()));
  EXPECT_EQ(read_file(path("m.csv")), first_lines) << "a resumed run replaces the second epoch";
  EXPECT_FALSE(open_metrics_csv(path("m.csv"), 199)) << "that of a run with other columns";
  EXPECT_EQ(read_file(path("m.csv")), first_lines);
}

TEST_F(EpochLog, EventFilesHoldTheMetricsOfTheProgramThatHaveAValue) {
  auto log = open_tensorboard(path("own"), std::nullopt);
  ASSERT_TRUE(log);
  ASSERT_TRUE((*log)->add(with_metrics(1)));
  const auto scalars = events_in(path("own")).back().scalars;
  EXPECT_EQ(scalars.at("test/mae"), 0.5F);
  EXPECT_FALSE(scalars.contains("test/f1"));
}

TEST_F(EpochLog, CsvLeavesOutWhatIsNotFinite) {
  auto log = open_metrics_csv(path("m.csv"), std::nullopt);
  actors::epoch_summary epoch = some_epoch(1);
  epoch.seconds = 0;
  epoch.figures.loss = std::numeric_limits<double>::quiet_NaN();
  epoch.figures.calibration = std::numeric_limits<double>::infinity();
  ASSERT_TRUE((*log)->add(epoch));
  EXPECT_EQ(read_file(path("m.csv")), std::string(header) + "1,100,100,51200,0,,,0.9,0.75,0.1,,0.0625,0.25\n");
}

TEST_F(EpochLog, AResumedCsvGoesOnBehindTheCheckpointsStep) {
  const std::string first = std::string(header) + first_line;
  for (const auto& [before, kept] :
       {std::pair(std::string(), std::string(header)), std::pair(std::string(header), std::string(header)),
        std::pair(first, first),
        std::pair(first + "2,150,50,1,1,1,1,,,,,,\n3,300,1,1,1,1,1,,,,,,\n", first + "2,150,50,1,1,1,1,,,,,,\n"),
        std::pair(first + "2,200,1", first)}) {
    write("m.csv", before);
    auto log = open_metrics_csv(path("m.csv"), 199);
    ASSERT_TRUE(log) << before;
    EXPECT_TRUE((*log)->add(without_evaluation(2)));
    EXPECT_EQ(read_file(path("m.csv")), kept + second_line);
  }
  std::filesystem::remove(path("m.csv"));
  auto log = open_metrics_csv(path("m.csv"), 199);
  ASSERT_TRUE(log);
  EXPECT_TRUE((*log)->add(some_epoch(1)));
  EXPECT_EQ(read_file(path("m.csv")), first);
}

TEST_F(EpochLog, AResumedCsvDoesNotTouchWhatIsNoSuchFile) {
  for (const std::string& before :
       {std::string("my diary\n"), std::string(header).substr(0, 20), std::string("epoch,step\n1,2\n"),
        std::string(header) + "1,one,100,51200,0.25,204800,0.3,,,,\n", std::string(header) + "1,100\n"}) {
    write("m.csv", before);
    const auto log = open_metrics_csv(path("m.csv"), 100);
    ASSERT_FALSE(log) << before;
    EXPECT_EQ(log.error().kind, fault_kind::input);
    EXPECT_TRUE(log.error().message.starts_with("--metrics-csv " + path("m.csv") + ": ")) << log.error().message;
    EXPECT_EQ(read_file(path("m.csv")), before);
  }
}

TEST_F(EpochLog, AFileThatCannotBeCreatedIsRefused) {
  const auto csv = open_metrics_csv(path("no/such/folder.csv"), std::nullopt);
  ASSERT_FALSE(csv);
  EXPECT_EQ(csv.error().kind, fault_kind::input);
  EXPECT_EQ(csv.error().message, "--metrics-csv " + path("no/such/folder.csv") + ": No such file or directory");
  EXPECT_FALSE(open_metrics_csv(path(""), std::nullopt));
  EXPECT_FALSE(open_metrics_csv("", 5));
  write("file", "");
  const auto events = open_tensorboard(path("file"), std::nullopt);
  ASSERT_FALSE(events);
  EXPECT_EQ(events.error().message, "--tensorboard " + path("file") + ": Not a directory");
  EXPECT_FALSE(open_tensorboard(path("file/below"), std::nullopt));
  EXPECT_FALSE(open_tensorboard("", std::nullopt));
}

TEST_F(EpochLog, AWriteThatFailsIsToldOnce) {
  auto log = open_metrics_csv("/dev/full", std::nullopt);
  ASSERT_TRUE(log);
  EXPECT_FALSE((*log)->failed());
  const auto written = (*log)->add(some_epoch(1));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, fault_kind::run);
  EXPECT_EQ(written.error().message, "--metrics-csv /dev/full: No space left on device; training continues without it");
  EXPECT_TRUE((*log)->failed());
  EXPECT_TRUE((*log)->add(some_epoch(2)));
  EXPECT_TRUE((*log)->failed());
  // A resumed run does not try to read a file without an end.
  auto resumed = open_metrics_csv("/dev/full", 100);
  ASSERT_TRUE(resumed);
  EXPECT_FALSE((*resumed)->add(some_epoch(1)));
}

TEST_F(EpochLog, EventFilesHoldTheScalarsOfEachEpochAtItsStep) {
  auto log = open_tensorboard(path("a/b"), std::nullopt);
  ASSERT_TRUE(log);
  ASSERT_TRUE((*log)->add(some_epoch(1)));
  ASSERT_TRUE((*log)->add(without_evaluation(40'000'000'000)));
  const auto events = events_in(path("a/b"));
  ASSERT_EQ(events.size(), 4u);
  for (const event& one : events) EXPECT_GT(one.wall_time, 1.7e9) << "seconds since 1970";
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].session_status, 1u);
  EXPECT_EQ(events[1].step, 0u);
  EXPECT_EQ(events[2].step, 100u);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"train/loss", 1.0F / 3},
                                                             {"train/samples_per_s", 204800},
                                                             {"test/auc", 0.9F},
                                                             {"test/accuracy", 0.75F},
                                                             {"test/log_loss", 0.1F},
                                                             {"test/calibration", 1.5F},
                                                             {"test/loss", 0.0625F},
                                                             {"test/rmse", 0.25F}}));
  EXPECT_EQ(events[3].step, 4'000'000'000'000u);
  EXPECT_EQ(events[3].scalars,
            (std::map<std::string, float>{{"train/loss", 1.0F / 3}, {"train/samples_per_s", 204800}}));
}

TEST_F(EpochLog, EventFilesOfAResumedRunReplaceWhatLiesBehindTheCheckpoint) {
  auto log = open_tensorboard(path("tb"), 300);
  ASSERT_TRUE(log);
  ASSERT_TRUE((*log)->add(some_epoch(4)));
  const auto events = events_in(path("tb"));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].session_status, 1u);
  EXPECT_EQ(events[1].step, 301u);
  EXPECT_EQ(events[2].step, 400u);
}

TEST_F(EpochLog, OnlyWhatIsAskedForIsOpened) {
  const auto none = open_epoch_logs(std::nullopt, std::nullopt);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  const auto both = open_epoch_logs(path("m.csv"), path("tb"));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->size(), 2u);
  EXPECT_FALSE(open_epoch_logs(path("m.csv"), path("m.csv")));
}

}  // namespace
}  // namespace troupe::apps::epoch_log_test
