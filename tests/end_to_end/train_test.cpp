// Goal: `troupe train` keeps its contract: its output on each stream, and results that depend on the job alone. Method:
// small jobs; the Adult job once, for its learning result.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end::train_test {
namespace {

const args short_tutorial = {"train", "--data", "tutorial", "--epochs", "30"};

void expect_fields(const boost::json::object& event, const std::vector<const char*>& fields) {
  for (const char* field : fields) EXPECT_TRUE(event.contains(field)) << field;
  EXPECT_EQ(event.size(), fields.size()) << event;
}

TEST(TrainJson, HasAnEventForEachEpochAndOneForTheEnd) {
  const outcome result = run(with(short_tutorial, {"--json"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const auto events = json_lines(result.out);
  ASSERT_EQ(events.size(), 31u);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(events[i].at("event"), "epoch");
    EXPECT_EQ(events[i].at("epoch"), i + 1);
    EXPECT_EQ(events[i].at("steps"), 10);
    EXPECT_TRUE(events[i].at("auc").is_null());
    expect_fields(events[i], {"event", "epoch", "steps", "seconds", "samples_per_s", "loss", "auc", "accuracy",
                              "log_loss", "calibration", "test_loss", "rmse"});
  }
  const auto& done = events.back();
  EXPECT_EQ(done.at("event"), "done");
  EXPECT_EQ(done.at("steps"), 300);
  EXPECT_GT(done.at("samples").to_number<double>(), 300);
  EXPECT_GT(done.at("setup_seconds").to_number<double>(), 0);
  EXPECT_GT(done.at("peak_rss_mib").to_number<double>(), 1);
  EXPECT_EQ(done.at("attempts"), 1);
  EXPECT_EQ(done.at("goodput").to_number<double>(), 1);
  EXPECT_LT(done.at("loss").to_number<double>(), events.front().at("loss").to_number<double>());
  expect_fields(done, {"event", "steps", "samples", "seconds", "setup_seconds", "steps_per_s", "samples_per_s", "loss",
                       "auc", "accuracy", "log_loss", "calibration", "test_loss", "rmse", "peak_rss_mib", "attempts",
                       "goodput", "weights_digest"});
}

TEST(TrainJson, NumbersReadBackAsTheyWere) {
  const outcome result = run(with(short_tutorial, {"--json"}));
  ASSERT_EQ(result.exit_code, 0);
  const std::string done = lines_of(result.out).back();
  const auto number = [&](const char* field) { return std::strtod(number_text(done, field).c_str(), nullptr); };
  // The program divided the same two numbers, so all bits must agree.
  EXPECT_EQ(number("steps") / number("seconds"), number("steps_per_s")) << done;
  EXPECT_EQ(number("samples") / number("seconds"), number("samples_per_s")) << done;
}

TEST(TrainText, EndsWithATableOnStandardOutput) {
  const outcome result = run(short_tutorial);
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word : {"epoch", "steps/s", "samples/s", "set-up", "peak memory", "weights digest"}) {
    EXPECT_FINDS(result.out, word) << word;
  }
  // An even selection of 30 epochs, including the first and the last.
  const auto lines = lines_of(result.out);
  const auto begins_with = [&](const std::string& text) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.rfind(text, 0) == 0; });
  };
  EXPECT_EQ(begins_with("     1 "), 1);
  EXPECT_EQ(begins_with("    30 "), 1);
  EXPECT_LT(lines.size(), 40u);
}

TEST(TrainText, FitsATerminal) {
  const outcome result = run({"train", "--epochs", "1"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* word : {"AUC", "accuracy", "log loss", "calibration"}) {
    EXPECT_FINDS(result.out, word) << word;
  }
  for (const std::string& line : lines_of(result.out)) EXPECT_LE(line.size(), 80u) << line;
}

TEST(TrainText, LeavesOutMetricsThatTheLossOrTheTargetsHaveNot) {
  const args job = {"train", "--data", "synthetic", "--steps", "10", "--rows", "100", "--quiet"};
  const std::pair<args, std::vector<const char*>> all[] = {{{"--loss", "mse"}, {"log loss", "logloss"}},
                                                           {{"--classes", "3"}, {"AUC", "calibr", "RMSE"}},
                                                           {{"--eval-every", "0"}, {"AUC", "test loss"}}};
  for (const auto& [options, absent] : all) {
    const outcome result = run(with(job, options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    for (const char* none : absent) EXPECT_EQ(result.out.find(none), std::string::npos) << none << result.out;
    for (const std::string& line : lines_of(result.out)) EXPECT_FALSE(line.ends_with(" -")) << line;
  }
}

TEST(TrainText, ReportsProgressInPlainLinesOnStandardError) {
  const outcome result = run(short_tutorial);
  EXPECT_FINDS(result.err, "troupe: epoch 1: ");
  EXPECT_FINDS(result.err, "troupe: epoch 30: ");
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << "a pipe is no terminal";
}

TEST(TrainQuiet, SilencesProgressOnly) {
  const outcome quiet = run(with(short_tutorial, {"--quiet"}));
  EXPECT_EQ(quiet.exit_code, 0);
  EXPECT_EQ(quiet.err, "");
  EXPECT_FINDS(quiet.out, "weights digest");
  EXPECT_EQ(json_lines(run(with(short_tutorial, {"--quiet", "--json"})).out).size(), 31u);
  expect_error(run({"train", "--quiet", "--trainers", "0"}), 2);
}

TEST(TrainSteps, OverrideEpochs) {
  const outcome result = run({"train", "--data", "tutorial", "--epochs", "100", "--steps", "25", "--json"});
  const auto events = json_lines(result.out);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().at("steps"), 25);
}

TEST(TrainDigest, DependsOnTheJobAlone) {
  const std::string digest = digest_of(short_tutorial);
  ASSERT_NE(digest, "");
  EXPECT_EQ(digest_of(short_tutorial), digest) << "the same run again";
  for (const char* servers : {"2", "5"}) {
    EXPECT_EQ(digest_of(with(short_tutorial, {"--servers", servers})), digest) << servers << " servers";
  }
  EXPECT_EQ(digest_of(with(short_tutorial, {"--threads", "1"})), digest) << "one thread";
  EXPECT_EQ(digest_of(with(short_tutorial, {"--threads", "7"})), digest) << "seven threads";
  for (const char* count : {"0", "1", "3"}) {
    EXPECT_EQ(digest_of(with(short_tutorial, {"--prepare", count})), digest) << count << " threads make batches";
  }
  EXPECT_EQ(digest_of(with(short_tutorial, {"--prepare", "2", "--processes"})), digest) << "in processes";
  EXPECT_NE(digest_of(with(short_tutorial, {"--seed", "2"})), digest) << "another seed";
}

TEST(TrainDigest, DependsOnTheJobAloneWithTablesOptimizersAndLayers) {
  const args job = {"train",     "--data",
                    "synthetic", "--steps",
                    "20",        "--rows",
                    "1000",      "--tables",
                    "3",         "--dim",
                    "8",         "--bag",
                    "4",         "--id-skew",
                    "zipf:1.1",  "--hidden",
                    "32,16",     "--trainers",
                    "3",         "--batch-size",
                    "50",        "--dense-optimizer",
                    "adam",      "--sparse-optimizer",
                    "adagrad"};
  const std::string digest = digest_of(job);
  ASSERT_NE(digest, "");
  for (const char* servers : {"1", "2", "5"}) {
    EXPECT_EQ(digest_of(with(job, {"--servers", servers})), digest) << servers << " servers";
  }
  EXPECT_NE(digest_of(with(job, {"--seed", "2"})), digest) << "another seed";
}

TEST(TrainAdult, LearnsWithinSixEpochs) {
  const outcome result = run({"train", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto events = json_lines(result.out);
  ASSERT_EQ(events.size(), 7u);
  for (const auto& event : events) {
    EXPECT_GT(event.at("auc").to_number<double>(), 0.85);
    EXPECT_GT(event.at("accuracy").to_number<double>(), 0.8);
    EXPECT_LT(event.at("log_loss").to_number<double>(), 0.35);
    EXPECT_NEAR(event.at("calibration").to_number<double>(), 1, 0.2);
  }
  EXPECT_GE(events.back().at("auc").to_number<double>(), 0.902);
}

TEST(TrainAdult, LearnsWithDotInteraction) {
  const args job = {"train", "--interaction", "dot", "--seed", "1"};
  const auto done = last_event(run(with(job, {"--json"})), "done");
  ASSERT_FALSE(done.empty());
  EXPECT_GE(done.at("auc").to_number<double>(), 0.902);
  for (const char* servers : {"2", "5"}) {
    EXPECT_EQ(digest_of(with(job, {"--servers", servers})), done.at("weights_digest").as_string())
        << servers << " servers";
  }
}

// The weights of relaxed modes depend on timing; the quality that they reach does not, within the design's bounds.
TEST(TrainAdult, LearnsAsWellWithStaleRows) {
  const auto auc_of = [](const args& more) {
    return last_event(run(with({"train", "--json"}, more)), "done").at("auc").to_number<double>();
  };
  const double sync = auc_of({});
  for (const args& more : {args{"--consistency", "ssp:2"},
                           {"--consistency", "ssp:8", "--servers", "2"},
                           {"--consistency", "async"},
                           {"--consistency", "async", "--servers", "3"}}) {
    EXPECT_NEAR(auc_of(more), sync, 0.003) << more[1];
  }
}

TEST(TrainFailure, NamesWhereTheNumbersWentBad) {
  const outcome result = run({"train", "--data", "synthetic", "--rows", "100", "--batch-size", "32", "--dense-lr",
                              "1e6", "--sparse-lr", "1e6", "--steps", "500", "--quiet"});
  const std::string line = expect_error(result, 1);
  EXPECT_FINDS(line, "trainer");
  EXPECT_FINDS(line, "step");
  EXPECT_TRUE(std::regex_search(line, std::regex("nan|inf", std::regex::icase))) << line;
}

TEST(TrainFailure, IsTheLastEvent) {
  const outcome result = run({"train", "--data", "synthetic", "--rows", "100", "--batch-size", "32", "--dense-lr",
                              "1e6", "--sparse-lr", "1e6", "--steps", "500", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const auto error = last_event(result, "error");
  ASSERT_FALSE(error.empty());
  EXPECT_EQ(error.at("code"), "run");
}

TEST(TrainOutput, ClosedEarlyEndsTheRunQuietly) {
  program running({"train", "--data", "tutorial", "--epochs", "100000000", "--json"});
  ASSERT_TRUE(running.wait_for_output("\n"));
  running.close_output();
  const outcome result = running.finish();
  EXPECT_TRUE(result.in_time);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 1) << "the results did not arrive";
  EXPECT_EQ(result.err, "");
}

TEST(TrainOutput, ThatCannotBeWrittenIsAnError) {
  launch how;
  how.output_file = "/dev/full";
  const outcome result = run(with(short_tutorial, {"--quiet"}), how);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_FINDS(result.err, "stdout");
}

}  // namespace
}  // namespace troupe::end_to_end::train_test
