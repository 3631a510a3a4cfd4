// Goal: when a process of a run dies or falls silent, all others end within the promised time, name it and a remedy,
// and leave nothing behind. Method: SIGKILL and SIGSTOP during the run, for each kind of process.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <regex>

#include "tests/end_to_end/several.hpp"
#include "tests/links/certificates.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::lost_processes_test {
namespace {

using clock = std::chrono::steady_clock;

/// From the death of a process, at `begin`, to the end of the last of the others: the `--dead-after` time until silence
/// is noticed (5 s by default), and then some tenths of a second. Delays of a busy or slow machine are not a fault; a
/// run that waits longer than this bound for the dead process would wait for ever.
void expect_end_in_time(clock::time_point begin, const args& timeout_options = {}) {
  const std::chrono::duration<double> taken = clock::now() - begin;
  testing::Test::RecordProperty("seconds", std::to_string(taken.count()));
  const double dead_after = timeout_options.empty() ? 5 : std::stod(timeout_options.at(1));
  EXPECT_LT(taken.count(), dead_after + 30);
}

const args two_each = {"--servers", "2", "--trainers", "2"};

/// The master's address that a child was given: it has no listener once the run is over.
links::endpoint master_of(pid_t child) {
  const std::string name = "TROUPE_MASTER=";
  for (const std::string& one : proc_words(child, "environ"))
    if (one.rfind(name, 0) == 0) return *links::parse_endpoint(one.substr(name.size()));
  ADD_FAILURE() << "process " << child << " knows no master";
  return {};
}

/// Expects `trainer 1 (host a, pid 17) died in step 8: ...` or, if it was silent, `... lost its connection in step 8:
/// ...; go on from the last checkpoint: COMMAND`.
void expect_obituary(const std::string& text, const std::string& who, const std::string& command) {
  const std::regex expected(
      ".*" + who +
      R"( \(host [^ ]+, pid \d+\) (died|lost its connection) in step \d+: [^;]+; continue from the last checkpoint: )" +
      std::regex_replace(command, std::regex(R"([.])"), "\\.") + "(\n[^]*)?");
  EXPECT_TRUE(std::regex_search(text, expected)) << text;
}

/// The options as they follow a command.
std::string as_text(const args& options) {
  std::string text;
  for (const std::string& one : options) text += " " + one;
  return text;
}

struct loss_case {
  const char* who;
  int signal;
  args timeout_options;
};

void PrintTo(const loss_case& one, std::ostream* out) {
  *out << one.who << (one.signal == SIGKILL ? " killed" : " stopped") << as_text(one.timeout_options);
}

std::string name_of(const testing::TestParamInfo<loss_case>& one) {
  std::string name = one.param.who;
  name.front() = static_cast<char>(std::toupper(name.front()));
  std::erase(name, ' ');
  return name + (one.param.signal == SIGKILL ? "Killed" : "Silent") + (one.param.timeout_options.empty() ? "" : "Soon");
}

const args soon = {"--dead-after", "1"};
const std::vector<loss_case> losses = {
    {"trainer 1", SIGKILL, {}},   {"trainer 0", SIGKILL, {}},  {"server 0", SIGKILL, {}}, {"server 1", SIGKILL, {}},
    {"trainer 1", SIGSTOP, soon}, {"server 0", SIGSTOP, soon}, {"trainer 1", SIGSTOP, {}}};

// -- with --processes ---------------------------------------------------------------

class LostProcessTiming : public testing::TestWithParam<loss_case> {
 protected:
  const model::checkpoint_folder folder_;
};

TEST_P(LostProcessTiming, EndsTheRunInTimeAndSaysHowToGoOn) {
  const args options =
      with(with(endless, two_each), {"--save", folder_.path(), "--checkpoint-every", "50", "--restarts", "0"});
  program running(with(with({"train", "--json", "--processes"}, options), GetParam().timeout_options));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\"")) << running.error();
  const pid_t lost = process_of(running, GetParam().who);
  const links::endpoint master = master_of(lost);
  const auto begin = clock::now();
  ASSERT_EQ(kill(lost, GetParam().signal), 0);
  const outcome ended = running.finish();  // waits for all processes
  expect_end_in_time(begin, GetParam().timeout_options);
  ASSERT_TRUE(ended.in_time);
  EXPECT_EQ(ended.exit_code, 1);
  const std::string command = "troupe train --processes" + as_text(GetParam().timeout_options) + " --resume " +
                              folder_.path() + " --save " + folder_.path() + " --checkpoint-every 50";
  expect_obituary(line_with(ended.err, "troupe: error: "), GetParam().who, command);
  if (GetParam().signal == SIGKILL)
    line_with(ended.err, fmt::format("{} (pid {}) was ended by signal 9", GetParam().who, lost));
  EXPECT_EQ(last_event(ended, "error").at("code"), "run");
  EXPECT_FALSE(somebody_listens(master));
}

INSTANTIATE_TEST_SUITE_P(Of, LostProcessTiming, testing::ValuesIn(losses), name_of);

TEST(LostMasterTiming, EndsItsProcessesInTime) {
  program running(with(with({"train", "--json", "--processes"}, endless), two_each));
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  const links::endpoint master = master_of(process_of(running, "server 0"));
  const auto begin = clock::now();
  running.send(SIGKILL);
  const outcome ended = running.finish();  // waits for all processes
  expect_end_in_time(begin);
  ASSERT_TRUE(ended.in_time);
  EXPECT_EQ(ended.signal, SIGKILL);
  for (const std::string who : {"server 0", "server 1", "trainer 0", "trainer 1"})
    line_with(ended.err, "troupe " + who + ": error: the master (" + links::to_string(master) + ") is gone");
  EXPECT_FALSE(somebody_listens(master));
}

TEST(LostProcess, LeavesACheckpointFromWhichTheAdviceGoesOn) {
  const model::checkpoint_folder folder;
  const args job = with({"--data", "tutorial", "--servers", "1", "--trainers", "2", "--seed", "7"}, {"--json"});
  const args saving = {"--save", folder.path(), "--checkpoint-every", "20", "--restarts", "0"};
  program running(with(with({"train", "--processes", "--epochs", "1000000000"}, job), saving));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\"")) << running.error();
  ASSERT_EQ(kill(process_of(running, "trainer 1"), SIGKILL), 0);
  EXPECT_EQ(running.finish().exit_code, 1);
  const auto saved = json_lines(run({"checkpoint", "list", folder.path(), "--json"}).out);
  const std::string end = std::to_string(saved.front().at("step").to_number<std::uint64_t>() + 20);
  const outcome resumed = run({"train", "--processes", "--resume", folder.path(), "--steps", end, "--json"});
  EXPECT_EQ(digest_of(resumed), digest_of(run(with({"train", "--steps", end}, job))));
}

// -- members that joined from elsewhere -----------------------------------------------

class LostHostTiming : public testing::TestWithParam<loss_case> {
 protected:
  const model::checkpoint_folder folder_;
};

TEST_P(LostHostTiming, EndsTheRunInTimeForAllOthers) {
  const args options =
      with(with(endless, two_each), {"--save", folder_.path(), "--checkpoint-every", "50", "--restarts", "0"});
  gathered_run several(options, GetParam().timeout_options);
  several.join_all(2, 2);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"checkpoint\"")) << several.master().error();
  const pid_t lost = process_of(several.master(), GetParam().who);
  const auto begin = clock::now();
  ASSERT_EQ(kill(lost, GetParam().signal), 0);
  several.set_aside(lost);
  const outcome ended = several.master().finish();
  const std::vector<outcome> others = several.finish_members(1);
  expect_end_in_time(begin, GetParam().timeout_options);
  EXPECT_EQ(ended.exit_code, 1);
  const std::string command = "troupe master --listen 127.0.0.1:0" + as_text(GetParam().timeout_options) +
                              " --resume " + folder_.path() + " --save " + folder_.path() + " --checkpoint-every 50";
  expect_obituary(line_with(ended.err, "troupe: error: "), GetParam().who, command);
  EXPECT_EQ(others.size(), 3u);
  for (const outcome& one : others) expect_obituary(line_with(one.err, "error: "), GetParam().who, command);
  EXPECT_FALSE(somebody_listens(several.address()));
}

INSTANTIATE_TEST_SUITE_P(Of, LostHostTiming, testing::Values(losses[0], losses[2], losses[4], losses[5]), name_of);

TEST(LostHost, LeavesACommandWithTheNetworkOptionsThatWereGiven) {
  const model::checkpoint_folder folder;
  const links::secrets_folder secrets;
  const links::authority ours("ours");
  const links::tls_files tls = ours.issue("node");
  const args network = {"--token-file", secrets.write("the token", std::string(run_token) + "\n"),
                        "--tls-cert",   tls.certificate,
                        "--tls-key",    tls.key,
                        "--tls-ca",     tls.ca,
                        "--dead-after", "3"};
  gathered_run several(with(endless, {"--servers", "1", "--trainers", "1", "--save", folder.path()}), network, {});
  several.join_all(1, 1);
  ASSERT_TRUE(several.master().wait_for_output(trains)) << several.master().error();
  const pid_t lost = process_of(several.master(), "trainer 0");
  ASSERT_EQ(kill(lost, SIGKILL), 0);
  several.set_aside(lost);
  const std::string line = line_with(several.master().finish().err, "troupe: error: ");
  const std::string command = "troupe master --listen 127.0.0.1:0 --token-file '" + network[1] + "'" +
                              as_text({network.begin() + 2, network.end()}) + " --resume " + folder.path() +
                              " --save " + folder.path();
  EXPECT_FINDS(line, command) << "\n" << command;
  EXPECT_EQ(line.find(run_token), std::string::npos) << line;
  several.finish_members(1);
}

TEST(LostMasterTiming, EndsItsHostsInTime) {
  gathered_run several(with(endless, two_each));
  several.join_all(2, 2);
  ASSERT_TRUE(several.master().wait_for_output(trains)) << several.master().error();
  const auto begin = clock::now();
  several.master().send(SIGKILL);
  several.master().finish();
  for (const outcome& one : several.finish_members(1))
    line_with(one.err, "troupe: error: the master (" + several.where() + ") is gone");
  expect_end_in_time(begin);
  EXPECT_FALSE(somebody_listens(several.address()));
}

}  // namespace
}  // namespace troupe::end_to_end::lost_processes_test
