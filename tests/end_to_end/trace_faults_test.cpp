// What the tools report about runs with deliberate faults.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/several.hpp"
#include "tests/end_to_end/traced.hpp"
#include "tests/read_file.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recording.hpp"

namespace troupe::end_to_end::trace_faults_test {
namespace {

using std::chrono::steady_clock;

boost::json::object ask(const args& question) {
  const outcome answered = run(with(with({"trace"}, question), {"--json"}));
  EXPECT_EQ(answered.exit_code, 0) << answered.err;
  const auto objects = json_lines(answered.out);
  return objects.empty() ? boost::json::object() : objects.back();
}

/// Recorded milliseconds that server 1 needed to apply each step.
std::map<std::uint64_t, double> applied_by_server_1(const std::string& folder) {
  std::map<std::uint64_t, double> taken_ms;
  const auto recording = trace::read_recording({{folder}, 0});
  EXPECT_TRUE(recording) << recording.error().message;
  if (!recording) return taken_ms;
  for (const trace::event& one : recording->events)
    if (one.what == trace::kind::range && one.type == static_cast<std::uint16_t>(trace::range_name::apply) &&
        recording->actor_name(one.actor) == "server 1")
      taken_ms[one.step] += static_cast<double>(one.end - one.begin) / 1e6;
  return taken_ms;
}

// A busy machine slows any actor in some steps, so most steps decide which actor takes longest.
TEST(FaultsTiming, ASlowApplyIsTheCriticalPathOfExactlyItsSteps) {
  constexpr double slow_ms = 100;
  const temporary_trace folder;
  const outcome trained = run(with(small, {"--tables", "2", "--servers", "2", "--steps", "30", "--trace", "full",
                                           "--trace-dir", folder.path()}),
                              with_faults("slow-apply server=1 first=10 last=20 ms=100"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto recorded_ms = applied_by_server_1(folder.path());
  std::size_t as_slow = 0;      // of the 11 slow steps
  std::size_t others_slow = 0;  // of the 18 other steps
  for (std::uint64_t step = 2; step <= 30; ++step) {
    const auto found = ask({"critical-path", folder.path(), "--step", std::to_string(step)});
    const auto& studied = found.at("studied").as_array().at(0).as_object();
    double applied_ms = 0;
    double largest_ms = 0;
    std::string largest;
    for (const auto& part : studied.at("parts").as_array()) {
      const double ms = part.at("time_ns").to_number<double>() / 1e6;
      if (ms > largest_ms) {
        largest_ms = ms;
        largest = part.at("actor").as_string().c_str();
      }
      if (part.at("what").as_string() == "apply" && part.at("actor").as_string() == "server 1") applied_ms += ms;
    }
    SCOPED_TRACE(boost::json::serialize(studied.at("text")));
    constexpr double rounding_ms = 1e-3;
    EXPECT_LE(applied_ms, recorded_ms.at(step) + rounding_ms);
    const bool is_slow = step >= 10 && step <= 20;
    if (is_slow) {
      EXPECT_GE(recorded_ms.at(step), slow_ms);  // the path may hold less, if another actor was delayed even longer
    }
    if (largest == "server 1" && applied_ms >= slow_ms) ++(is_slow ? as_slow : others_slow);
  }
  EXPECT_GE(as_slow, 6U);
  EXPECT_LE(others_slow, 6U);
}

/// Runs until the program is stuck and reports why; kills it and returns the line that contains `what`. On a busy
/// machine it may report a merely slow step before.
std::string told_of(const args& arguments, const std::string& faults, const std::string& folder,
                    const std::string& what) {
  program running(with(arguments, {"--step-timeout", "1", "--trace-dir", folder}), with_faults(faults));
  EXPECT_TRUE(running.wait_for_error(what)) << running.error();
  const std::string line = line_with(running.error(), what);
  EXPECT_FINDS(line, "takes longer than 1 s");
  // While it lives, the same can be asked from outside.
  const auto now = ask({"blocked", folder});
  EXPECT_NE(now.at("class").as_string(), "none");
  running.send(SIGKILL);
  return line;
}

/// The folder of the diagnosis that a line names.
std::filesystem::path diagnosis_in(const std::string& line) {
  return std::filesystem::path(line.substr(line.find("see ") + 4)).parent_path();
}

TEST(Faults, ALostGradientIsNamedWithSenderAndNumber) {
  const temporary_trace folder;
  // One server is actor 2; so trainer 1 is actor 4.
  const std::string line = told_of(with(small, {"--processes", "--steps", "1000000"}),
                                   "lose type=gradient sender=4 step=5", folder.path(), "never arrived");
  EXPECT_FINDS(line, "was sent by trainer 1");
  EXPECT_FINDS(line, "never arrived at server 0");
  EXPECT_FINDS(line, "gradient, step 5");
  const auto blocked = ask({"blocked", diagnosis_in(line).string()});
  EXPECT_EQ(blocked.at("class").as_string(), "never_arrived");
}

TEST(Faults, ASkippedAllreduceIsNamedWithItsNumberAndTheMissingRank) {
  const temporary_trace folder;
  const std::string line = told_of(with(small, {"--steps", "1000000"}), "skip-reduce rank=1 step=4", folder.path(),
                                   "collective 4 (step 4, bucket 0)");
  EXPECT_FINDS(line, "ranks {1} missing");
  std::set<std::string> kinds;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    const bool is_folder = entry.is_directory();
    kinds.insert(is_folder ? "folder" : entry.path().extension().string());
    EXPECT_EQ(entry.status().permissions(),
              is_folder ? std::filesystem::perms::owner_all : std::filesystem::perms(0600))
        << entry.path() << " is for the user alone";
  }
  for (const char* kind : {"folder", ".ring", ".txt", ".json"}) EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST(FaultsTiming, TheSameBetweenProcesses) {
  const temporary_trace folder;
  const std::string line = told_of(with(small, {"--processes", "--steps", "1000000"}), "skip-reduce rank=1 step=4",
                                   folder.path(), "collective 4 (step 4, bucket 0)");
  EXPECT_FINDS(line, "ranks {1} missing");
}

TEST(Faults, TheRingOfAnotherMachineComesByMessage) {
  const temporary_trace folder;
  // A separate clock makes the process look as if it were on another machine.
  program running(
      with(small, {"--processes", "--steps", "1000000", "--step-timeout", "2", "--trace-dir", folder.path()}),
      with_faults("clock trainer=1 offset-ms=3000 ppm=50; skip-reduce rank=1 step=4"));
  const std::string ring = "-" + std::to_string(process_of(running, "trainer 1")) + ".ring";
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().string().ends_with(ring)) std::filesystem::remove(entry.path());
  ASSERT_TRUE(running.wait_for_error("ranks {1} missing")) << running.error();
  const std::string line = line_with(running.error(), "ranks {1} missing");
  EXPECT_FINDS(line, "takes longer than 2 s");
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(diagnosis_in(line)))
    if (entry.path().string().ends_with(ring)) ++found;
  EXPECT_EQ(found, 1U) << "in the folder of the diagnosis";
  running.send(SIGKILL);
}

TEST(Faults, AGradientInTheNameOfAnothersTrainerEndsTheRun) {
  const outcome ended = run(with(small, {"--processes", "--steps", "1000000", "--trace", "off"}),
                            with_faults("impersonate rank=1 step=4 as=0"));
  EXPECT_EQ(ended.exit_code, 1);
  const std::string line = line_with(ended.err, "error: ");
  EXPECT_FINDS(line, "a gradient of trainer 0 from a process that does not have that trainer") << ended.err;
}

TEST(Faults, AKilledServerLeavesItsRingAndIsNamed) {
  const temporary_trace folder;
  program running(with({"train"}, with(endless, {"--processes", "--json", "--trace-dir", folder.path()})));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  const pid_t server = process_of(running, "server 0");
  ::kill(server, SIGKILL);
  const outcome ended = running.finish();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_FINDS(ended.err, "troupe trace blocked " + folder.path());
  const auto recording = value_of(trace::read_recording({{folder.path()}, 0}));
  bool has_ring = false;
  for (const trace::process_info& process : recording.processes)
    if (process.pid == static_cast<std::uint32_t>(server)) has_ring = process.records > 100;
  EXPECT_TRUE(has_ring);
  const auto blocked = ask({"blocked", folder.path()});
  EXPECT_EQ(blocked.at("class").as_string(), "dead");
  const std::string verdict(blocked.at("verdict").as_string());
  EXPECT_FINDS(verdict, "server 0 (pid " + std::to_string(server) + ")");
}

TEST(Faults, AStoppedServerIsNamedWithWhatLetsItGoOn) {
  const temporary_trace folder;
  program running(with(small, {"--processes", "--steps", "1000000000", "--step-timeout", "1", "--dead-after", "60",
                               "--json", "--trace-dir", folder.path()}));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  const pid_t server = process_of(running, "server 0");
  ::kill(server, SIGSTOP);
  const std::string is_stopped = "server 0 (pid " + std::to_string(server) + ") is stopped";
  EXPECT_TRUE(running.wait_for_error(is_stopped)) << running.error();
  const std::string line = line_with(running.error(), is_stopped);
  EXPECT_FINDS(line, "takes longer than 1 s");
  EXPECT_FINDS(line, "kill -CONT " + std::to_string(server));
  EXPECT_EQ(ask({"blocked", folder.path()}).at("class").as_string(), "stopped");
  ::kill(server, SIGCONT);
  running.send(SIGINT);
  EXPECT_EQ(running.finish().exit_code, 0) << "it was only looked at";
}

/// Milliseconds on all steps' critical paths in which the process of `actor` did not run.
double not_running_ms(const boost::json::object& report, const std::string& actor) {
  for (const auto& part : report.at("statistics").at("parts").as_array())
    if (part.at("what").as_string() == "not running" && part.at("actor").as_string() == actor)
      return part.at("sum_ns").to_number<double>() / 1e6;
  return 0;
}

TEST(Faults, ATrainerThatIsStoppedForAWhileIsNamedAndNoWire) {
  constexpr std::chrono::milliseconds stopped{300};
  constexpr double most_ms = 250;  // when the stop begins, the noticing thread may sleep, and a step is under way
  const auto begin = std::chrono::steady_clock::now();
  const temporary_trace folder;
  program running(with(small, {"--processes", "--steps", "1000000000", "--dead-after", "60", "--json", "--trace",
                               "full", "--trace-dir", folder.path()}));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  const pid_t trainer = process_of(running, "trainer 1");
  // The step counts only once it is recorded to its end, and on a busy machine other threads may compute between the
  // stop and its detection.
  EXPECT_TRUE(comes_true([&] {
    ::kill(trainer, SIGSTOP);
    std::this_thread::sleep_for(stopped);
    ::kill(trainer, SIGCONT);
    return not_running_ms(ask({"critical-path", folder.path()}), "trainer 1") >= most_ms;
  }));
  const auto summed = ask({"summary", folder.path()});
  double stalled_ms = 0;
  for (const auto& one : summed.at("stalls").as_array())
    if (summed.at("processes").at(one.at("process").to_number<std::size_t>()).at("pid") == trainer)
      stalled_ms = one.at("time_ns").to_number<double>() / 1e6;
  EXPECT_GE(stalled_ms, most_ms);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(stalled_ms, elapsed.count()) << "stalls are counted more than once";
  running.send(SIGINT);
  EXPECT_EQ(running.finish().exit_code, 0);
}

TEST(Faults, AClockThatIsWrongIsSetRight) {
  const temporary_trace folder;
  constexpr double offset_ns = 3e9;
  constexpr double ppm = 50;
  const outcome trained =
      run(with(small, {"--processes", "--steps", "3000", "--trace", "full", "--trace-dir", folder.path()}),
          with_faults("clock trainer=1 offset-ms=3000 ppm=50"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto recording = value_of(trace::read_recording({{folder.path()}, 0}));
  std::size_t compared = 0;
  for (const trace::event& one : recording.events) {
    if (one.what != trace::kind::handled && one.what != trace::kind::arrived) continue;
    EXPECT_LE(one.sent, one.arrived);
    EXPECT_LE(one.arrived, one.begin);
    ++compared;
  }
  EXPECT_GT(compared, 10'000U);
  std::size_t aligned = 0;
  for (const trace::process_info& process : recording.processes) {
    if (process.boot == recording.processes.front().boot) continue;
    ++aligned;
    EXPECT_TRUE(process.clock_aligned);
    // At first the clock was ahead by exactly the offset; then it drifts.
    EXPECT_NEAR(static_cast<double>(process.clock_offset), -offset_ns,
                static_cast<double>(process.clock_error) + ppm * 1e-6 * static_cast<double>(recording.end()));
    EXPECT_LT(static_cast<double>(process.clock_error), offset_ns / 10);
  }
  EXPECT_EQ(aligned, 1U);
  const std::string exported = folder.path() + "/timeline.json";
  ask({"timeline", folder.path(), "--output", exported});
  EXPECT_GT(std::filesystem::file_size(exported), 100'000U);
}

TEST(Faults, AFlippedBitIsFoundInItsTensorAndAllBeforeItIsEqual) {
  const temporary_trace a;
  const temporary_trace b;
  const args job = with(small, {"--steps", "12", "--trace", "full", "--trace-dir"});
  ASSERT_EQ(run(with(job, {a.path()}), with_faults("")).exit_code, 0);
  ASSERT_EQ(run(with(job, {b.path()}), with_faults("flip rank=1 step=7")).exit_code, 0);
  const outcome differs = run({"trace", "diff", a.path(), b.path()});
  EXPECT_EQ(differs.exit_code, 1) << differs.err;
  for (const char* word : {"step 7", "gradient", "trainer 1", "server 0", "tables[0].grad"})
    EXPECT_FINDS(lines_of(differs.out).at(0), word) << word << " in " << differs.out;
  EXPECT_EQ(run({"trace", "diff", a.path(), a.path()}).exit_code, 0);
  EXPECT_EQ(run({"trace", "diff", a.path(), "/nowhere"}).exit_code, 2);
}

TEST(Faults, ASignalAsksForADiagnosis) {
  const temporary_trace folder;
  program running(with({"train"}, with(endless, {"--json", "--trace", "ring", "--trace-dir", folder.path()})));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  running.send(SIGUSR1);
  ASSERT_TRUE(running.wait_for_error("a signal asked for it: ")) << running.error();
  EXPECT_TRUE(running.wait_for_error("summary.txt")) << running.error();
  running.send(SIGINT);
  EXPECT_EQ(running.finish().exit_code, 0);
  std::size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++folders;
    for (const char* file : {"summary.txt", "stacks.txt", "blocked.json"})
      EXPECT_GT(std::filesystem::file_size(entry.path() / file), 50U) << file;
    EXPECT_FINDS(read_file(entry.path() / "stacks.txt"), "caf.worker");
  }
  EXPECT_EQ(folders, 1U) << "the diagnosis stays, the ring of a run that ended well does not";
}

TEST(Faults, WithoutATraceThereIsNoDiagnosisAndItSaysSo) {
  program running(with({"train"}, with(endless, {"--json", "--trace", "off"})));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  running.send(SIGUSR1);
  EXPECT_TRUE(running.wait_for_error("no diagnosis, as nothing is recorded (--trace off)")) << running.error();
  running.send(SIGINT);
  EXPECT_EQ(running.finish().exit_code, 0);
}

/// From the deadline until the report of the verdict: some tenths of a second.
TEST(FaultsTiming, TheVerdictComesSoonAfterTheDeadline) {
  const temporary_trace folder;
  program running(
      with(small, {"--processes", "--steps", "1000000", "--step-timeout", "2", "--trace-dir", folder.path()}),
      with_faults("lose type=gradient sender=4 step=5"));
  ASSERT_TRUE(running.wait_for_error("trainer 1 (host"))
      << running.error();  // has joined: the first step is about to begin
  const auto joined = steady_clock::now();
  ASSERT_TRUE(running.wait_for_error("never arrived")) << running.error();
  const std::chrono::duration<double> taken = steady_clock::now() - joined;
  RecordProperty("seconds", std::to_string(taken.count()));
  EXPECT_LT(taken.count(), 2.0 + 20.0) << "2 s to the deadline, and many times what is usual for a busy machine";
  running.send(SIGKILL);
}

}  // namespace
}  // namespace troupe::end_to_end::trace_faults_test
