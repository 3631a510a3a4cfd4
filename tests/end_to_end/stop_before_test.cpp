// Goal: the first SIGINT or SIGTERM is noticed, reported and obeyed whatever the program does before the first step.
// Method: signals as soon as the program has installed its handlers, during work that exceeds its lifetime.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>

#include "tests/end_to_end/several.hpp"
#include "tests/model/data_file.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::stop_before_test {
namespace {

/// Whether a process handles a signal.
bool hears(pid_t process, int signal) {
  const std::string status = read_file(fmt::format("/proc/{}/status", process));
  const std::string field = "SigCgt:";
  const std::size_t at = status.find(field);
  if (at == std::string::npos) return false;
  return (std::stoull(status.substr(at + field.size()), nullptr, 16) >> (signal - 1) & 1) != 0;
}

/// A packed file of 256 GiB of rows, which takes many minutes to read.
class endless_rows {
 public:
  endless_rows() : file_(model::zstd("y,x\n")) {
    std::string rows;
    while (rows.size() < std::size_t{64} << 20) rows += "1,2\n0,3\n1,4\n0,5\n";
    const std::string frame = model::zstd(rows);
    std::ofstream out(file_.path(), std::ios::binary | std::ios::app);
    for (int i = 0; i < 4096; ++i) out << frame;
  }

  args job() const {
    return {"--data",    "csv:" + file_.path(),
            "--columns", R"([{"name":"y","kind":"label"},{"name":"x","kind":"numeric"}])",
            "--servers", "0"};
  }

 private:
  model::temporary_file file_;
};

void expect_told(const outcome& from, const std::string& name = "troupe") {
  const std::string line = name +
                           ": stopping at the end of this step, or at once before the first; a second signal "
                           "quits at once\n";
  const std::size_t at = from.err.find(line);
  EXPECT_NE(at, std::string::npos) << from.err;
  EXPECT_EQ(from.err.find("stopping at", at + line.size()), std::string::npos) << from.err;
  EXPECT_EQ(from.err.find("error"), std::string::npos) << from.err;
}

/// Stops a run that has just begun.
outcome stopped(program& running, int signal) {
  EXPECT_TRUE(comes_true([&] { return hears(running.process(), signal); })) << running.error();
  running.send(signal);
  return running.finish();
}

void expect_unbegun(const outcome& end) {
  ASSERT_TRUE(end.in_time);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  const auto done = last_event(end, "done");
  ASSERT_FALSE(done.empty()) << end.err;
  EXPECT_EQ(done.at("stopped"), true);
  EXPECT_EQ(done.at("steps").to_number<int>(), 0);
  EXPECT_TRUE(done.at("weights_digest").is_null());
  expect_told(end);
}

class BeforeTheFirstStep : public testing::TestWithParam<int> {};

TEST_P(BeforeTheFirstStep, RowsThatAreReadAreLeft) {
  const endless_rows rows;
  const model::checkpoint_folder folder;
  for (const args& more : {args{}, args{"--processes"}, args{"--save", folder.path(), "--checkpoint-every", "10"},
                           args{"--print-network"}}) {
    program running(with(with({"train", "--json"}, rows.job()), more));
    expect_unbegun(stopped(running, GetParam()));
  }
}

TEST_P(BeforeTheFirstStep, AMasterLeavesThemTooAndItsMembers) {
  const endless_rows rows;
  program reading(with({"master", "--listen", "127.0.0.1:0", "--json"}, rows.job()), with_token());
  expect_unbegun(stopped(reading, GetParam()));
  gathered_run several({"--data", "tutorial", "--steps", "10"});
  several.master().send(GetParam());
  expect_unbegun(several.master().finish());
}

TEST_P(BeforeTheFirstStep, WhoWaitsForAMasterLeaves) {
  program waiting({"join", "127.0.0.1:1", "--as", "server", "--join-timeout", "86400"}, with_token());
  ASSERT_TRUE(waiting.wait_for_error("trying again"));
  waiting.send(GetParam());
  const outcome end = waiting.finish();
  ASSERT_TRUE(end.in_time);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  expect_told(end);
}

TEST_P(BeforeTheFirstStep, QuietlyNothingIsTold) {
  const endless_rows rows;
  program running(with({"train", "--quiet"}, rows.job()));
  const outcome end = stopped(running, GetParam());
  ASSERT_TRUE(end.in_time);
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.err, "");
  EXPECT_FINDS(end.out, "stopped");
}

INSTANTIATE_TEST_SUITE_P(Both, BeforeTheFirstStep, testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace troupe::end_to_end::stop_before_test
