#include "trace/analysis/critical_path.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tests/analysis/synchronous_run.hpp"

namespace troupe::analysis::critical_path_test {
namespace {

TEST(CriticalPath, IsOneLine) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const step_path path = find_critical_path(index, find_steps(run).whole[0]);
  EXPECT_EQ(path_line(run, path),
            "step 2: 30.7 ms = pool 2.0 (server 1 queue 1.0) + forward/backward 20.0 (trainer 0) + "
            "gradient wire 0.5 (trainer 0 to server 1) + apply 8.0 (server 1) + 0.2 other");
  ASSERT_NE(path.largest(), nullptr);
  EXPECT_EQ(path.largest()->time, trace::ms(20));
}

/// Like the end-to-end test: 50 ms of sleep in server 1's apply in steps 10 to 20.
TEST(CriticalPath, NamesTheServerThatIsSlowForExactlyThoseSteps) {
  std::vector<trace::nanoseconds> applies(30, trace::ms(8));
  for (std::size_t step = 10; step <= 20; ++step) applies[step - 1] += trace::ms(50);
  synchronous_run one(applies);
  const causality index(one.made.done());
  const auto report = report_critical_path(index, std::nullopt);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->paths.size(), 29U);
  for (const step_path& path : report->paths) {
    const bool slow = path.window.step >= 10 && path.window.step <= 20;
    EXPECT_EQ(path.largest()->what.range, slow ? trace::range_name::apply : trace::range_name::forward_backward);
    EXPECT_EQ(path.largest()->what.actor, slow ? one.made.server(1) : one.made.trainer(0));
    if (slow) {
      EXPECT_EQ(path.largest()->time, trace::ms(58));
    }
  }
  ASSERT_EQ(report->studies.size(), 1U);
  EXPECT_EQ(report->studies[0].path.window.step, 10U);
}

TEST(CriticalPath, AsksWhatIfTheLargestPartTookHalf) {
  synchronous_run one({trace::ms(8), trace::ms(58)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const step_study study = study_step(index, find_steps(run).whole[0]);
  ASSERT_TRUE(study.halved);
  EXPECT_EQ(study.halved->what.range, trace::range_name::apply);
  EXPECT_EQ(study.halved->time, trace::us(80'700) - trace::ms(29));
  ASSERT_TRUE(study.halved->largest);
  EXPECT_EQ(study.halved->largest->what.range, trace::range_name::apply);

  synchronous_run other({trace::ms(8), trace::ms(8)});
  const trace::recording& second = other.made.done();
  const causality second_index(second);
  const step_study faster = study_step(second_index, find_steps(second).whole[0]);
  EXPECT_EQ(faster.halved->time, trace::us(24'900));
  EXPECT_EQ(faster.halved->largest->what.actor, other.made.trainer(1));
  EXPECT_EQ(faster.halved->largest->time, trace::ms(15));
}

TEST(CriticalPath, SumsAllStepsUp) {
  std::vector<trace::nanoseconds> applies(21, trace::ms(8));
  applies[20] = trace::ms(58);  // one of 20 whole steps
  synchronous_run one(applies);
  const causality index(one.made.done());
  const auto report = report_critical_path(index, std::nullopt);
  ASSERT_TRUE(report && report->statistics);
  const path_statistics& all = *report->statistics;
  EXPECT_EQ(all.steps, 20U);
  EXPECT_EQ(report->incomplete, 1U);
  EXPECT_EQ(all.p50, trace::us(30'700));
  EXPECT_EQ(all.p95, trace::us(30'700));  // rank 19 of 20
  EXPECT_EQ(all.sum, trace::us(30'700) * 20 + trace::ms(50));
  ASSERT_GE(all.parts.size(), 2U);
  EXPECT_EQ(all.parts[0].what.range, trace::range_name::forward_backward);
  EXPECT_EQ(all.parts[0].largest, 19U);
  EXPECT_EQ(all.parts[1].what.range, trace::range_name::apply);
  EXPECT_EQ(all.parts[1].p50, trace::ms(8));
  EXPECT_EQ(all.parts[1].largest, 1U);
  EXPECT_EQ(all.parts[1].steps, 20U);
}

TEST(CriticalPath, CountsAStepWithoutAPartAsZero) {
  const path_part apply{path_category::work, 2, 0, 0, trace::range_name::apply};
  std::vector<step_path> paths(10);
  for (std::size_t i = 0; i < paths.size(); ++i) paths[i].window.end = trace::ms(1);
  for (std::size_t i = 0; i < 4; ++i) paths[i].parts.push_back({apply, trace::us(100 * static_cast<int>(i + 1)), 0});
  const path_statistics all = gather(paths);
  ASSERT_EQ(all.parts.size(), 1U);
  EXPECT_EQ(all.parts[0].p50, 0);
  EXPECT_EQ(all.parts[0].p95, trace::us(400));
}

TEST(CriticalPath, TakesEachTrainersOwnStepsWhereThereIsNoCommonCommit) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  one.made.range(one.made.server(0), trace::range_name::apply, 1, trace::ms(126), trace::ms(126));
  const trace::recording& run = one.made.done();
  const causality index(run);
  const auto report = report_critical_path(index, 2);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->common);
  ASSERT_EQ(report->studies.size(), 2U);
  const std::string text = report_text(run, *report, 100);
  EXPECT_NE(text.find("no common commit"), text.npos);
  EXPECT_NE(text.find("step 2 of trainer 1: "), text.npos) << text;
}

/// Server 1's process stops for 50 ms while trainer 0's gradient is in flight to it.
TEST(CriticalPath, NamesTheProcessThatDidNotRunRatherThanTheWire) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  one.made.actor(one.made.server(1), "server 1", 1);
  for (trace::event& each : one.made.edit().events) {
    if (each.actor != one.made.server(1)) continue;
    each.process = 1;
    if (each.begin < one.commits[1] + trace::us(22'700)) continue;
    each.arrived += trace::ms(50);
    each.begin += trace::ms(50);
    each.end += trace::ms(50);
  }
  one.made.stalled(one.made.server(1), one.commits[1] + trace::us(22'300), one.commits[1] + trace::us(72'300));
  const trace::recording& run = one.made.done();
  const causality index(run);
  const auto report = report_critical_path(index, 2);
  ASSERT_TRUE(report) << report.error().message;
  const step_study& study = report->studies.at(0);
  EXPECT_EQ(path_line(run, study.path),
            "step 2: 80.7 ms = pool 2.0 (server 1 queue 1.0) + forward/backward 20.0 (trainer 0) + "
            "not running 50.0 (server 1) + apply 8.0 (server 1) + 0.7 other");
  trace::nanoseconds sum = 0;
  for (const contribution& part : study.path.parts) sum += part.time;
  EXPECT_EQ(sum, study.path.window.duration());
  ASSERT_TRUE(study.halved);
  EXPECT_EQ(study.halved->what.what, path_category::not_running);
  EXPECT_EQ(study.halved->time, trace::us(55'700));
  const boost::json::object json = study_json(run, study, true);
  EXPECT_EQ(json.at("if_halved").at("of").at("kind"), "not running");
  EXPECT_EQ(json.at("if_halved").at("of").at("what"), "not running");
  EXPECT_EQ(json.at("if_halved").at("of").at("actor"), "server 1");
}

/// Trainer 0 waits for device 0 in all but 1 ms of its forward/backward; the device is busy for 12 ms of that.
TEST(CriticalPath, TellsTheDevicesTimeFromTheHosts) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const std::uint16_t trainer = one.made.trainer(0);
  const trace::nanoseconds begin = one.commits[1] + trace::us(2'200);
  one.made.range(trainer, trace::range_name::device_wait, 2, begin + trace::ms(1), begin + trace::ms(20));
  one.made.on_device(trainer, 0, trace::range_name::forward_backward, 2, begin + trace::ms(2), begin + trace::ms(14));
  const trace::recording& run = one.made.done();
  const causality index(run);
  const auto report = report_critical_path(index, 2);
  ASSERT_TRUE(report) << report.error().message;
  const step_study& study = report->studies.at(0);
  const std::string line = path_line(run, study.path);
  EXPECT_NE(line.find("forward/backward 1.0 (trainer 0)"), line.npos) << line;
  EXPECT_NE(line.find("device wait 7.0 (trainer 0)"), line.npos) << line;
  EXPECT_NE(line.find("forward/backward on device 0 12.0 (trainer 0)"), line.npos) << line;
  trace::nanoseconds sum = 0;
  for (const contribution& part : study.path.parts) sum += part.time;
  EXPECT_EQ(sum, study.path.window.duration());
  ASSERT_TRUE(study.halved);
  EXPECT_EQ(study.halved->what.what, path_category::on_device);
  const boost::json::object json = study_json(run, study, true);
  EXPECT_EQ(json.at("if_halved").at("of").at("kind"), "on device");
  EXPECT_EQ(json.at("if_halved").at("of").at("actor"), "trainer 0");
}

TEST(CriticalPath, OfAStepThatIsNotThereIsAnError) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const causality index(one.made.done());
  const auto report = report_critical_path(index, 7);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "step 7: the recording holds whole steps between 2 and 2, not this one");
  const trace::recording nothing;
  EXPECT_EQ(report_critical_path(causality(nothing), std::nullopt).error().message,
            "the recording holds no whole step");
}

TEST(CriticalPath, IsShownAsTextAndAsJson) {
  synchronous_run one({trace::ms(8), trace::ms(8), trace::ms(9)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const auto report = report_critical_path(index, std::nullopt);
  ASSERT_TRUE(report);
  const std::string text = report_text(run, *report, 100);
  EXPECT_EQ(text.rfind("step 3: 31.7 ms = ", 0), 0U) << text;
  EXPECT_NE(text.find("If forward/backward (trainer 0) took half its time, the step would take 25.9 ms; "
                      "forward/backward (trainer 1) would become the largest part, with 15.0 ms."),
            text.npos)
      << text;
  EXPECT_NE(text.find("All 2 whole steps: p50 30.7 ms, p95 31.7 ms (1 incomplete left out)"), text.npos) << text;
  const boost::json::object json = report_json(run, *report);
  const auto& step = json.at("studied").as_array()[0].as_object();
  EXPECT_EQ(step.at("step").to_number<int>(), 3);
  EXPECT_EQ(step.at("time_ns").to_number<trace::nanoseconds>(), trace::us(31'700));
  trace::nanoseconds sum = 0;
  for (const auto& part : step.at("parts").as_array())
    sum += part.as_object().at("time_ns").to_number<trace::nanoseconds>();
  EXPECT_EQ(sum, trace::us(31'700));
  EXPECT_EQ(json.at("steps").as_array().size(), 2U);
  EXPECT_EQ(step.at("chain").as_array().size(), 7U);
}

}  // namespace
}  // namespace troupe::analysis::critical_path_test
