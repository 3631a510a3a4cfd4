// Goal: the first SIGINT or SIGTERM ends a run in the ordinary way, the second ends the program. Method: a job that
// would take days, signalled once it runs.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end::signals_test {
namespace {

const std::vector<std::string> endless = {"train", "--data", "tutorial", "--epochs", "1000000000"};

std::vector<std::string> endless_json() {
  std::vector<std::string> arguments = endless;
  arguments.push_back("--json");
  return arguments;
}

class FirstSignal : public testing::TestWithParam<int> {};

TEST_P(FirstSignal, StopsTheRunAndReportsIt) {
  program running(endless_json());
  ASSERT_TRUE(running.wait_for_output("\"event\":\"epoch\""));
  running.send(GetParam());
  const outcome result = running.finish();
  ASSERT_TRUE(result.in_time);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err,
            "troupe: stopping at the end of this step, or at once before the first; a second signal quits at once\n");
  const auto done = last_event(result, "done");
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.at("stopped"), true);
  EXPECT_GT(done.at("steps").to_number<double>(), 0);
  EXPECT_NE(done.at("weights_digest"), "");
}

TEST_P(FirstSignal, StopsTheRunWithItsTables) {
  program running(endless);
  ASSERT_TRUE(running.wait_for_error("troupe: epoch 1: "));
  running.send(GetParam());
  const outcome result = running.finish();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FINDS(result.out, "stopped");
  EXPECT_FINDS(result.out, "weights digest");
}

// Trainers without tables only wait for each other.
TEST_P(FirstSignal, StopsARunWithoutTablesOnASingleWorker) {
  std::string rows = "y,a,b\n";
  for (int row = 0; row < 64; ++row) rows += fmt::format("{},{},{}\n", row % 2, row % 7, row % 11);
  program running({"train", "--data", "csv:" + write_file("rows.csv", rows), "--columns",
                   R"([{"name":"y","kind":"label"},{"name":"a","kind":"numeric"},{"name":"b","kind":"numeric"}])",
                   "--servers", "0", "--batch-size", "8", "--threads", "1", "--epochs", "1000000000", "--json"});
  ASSERT_TRUE(running.wait_for_output("\"event\":\"epoch\""));
  running.send(GetParam());
  const outcome result = running.finish();
  ASSERT_TRUE(result.in_time);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(last_event(result, "done").at("stopped"), true);
}

INSTANTIATE_TEST_SUITE_P(Both, FirstSignal, testing::Values(SIGINT, SIGTERM));

TEST(SecondSignal, EndsTheProgram) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "skipped: the thread sanitizer delivers signals late, when the first one may have ended the run";
#endif
  program running(endless_json());
  ASSERT_TRUE(running.wait_for_output("\"event\":\"epoch\""));
  // Two different signals, both pending at once: two of a kind would count as one.
  running.send_together({SIGINT, SIGTERM});
  const outcome result = running.finish();
  ASSERT_TRUE(result.in_time);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(result.out.find("\"event\":\"done\""), std::string::npos);
}

}  // namespace
}  // namespace troupe::end_to_end::signals_test
