// Goal: slow connections do not change a run, and a connection that fails in any way ends it for all processes with a
// line that names the process. Method: relays between processes of this machine, which change their behavior once the
// run trains; so these tests run everywhere.

#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <string>

#include "tests/hosts/relay.hpp"
#include "tests/hosts/spread_run.hpp"

namespace troupe::hosts::relays_test {
namespace {

using namespace std::chrono_literals;

// All of 127.0.0.0/8 is this machine: processes use one address, relays the other.
constexpr const char* processes_at = "127.0.0.1";
constexpr const char* relays_at = "127.0.0.2";

const args soon = {"--dead-after", "1"};

/// The error for a silence that was detected in time.
constexpr const char* silent = R"(no byte came for (0\.[89]|1\.0) s)";
constexpr const char* cut_short = "its connection was (closed|reset)";
/// The side that receives nothing ends the link, which the other side notices; either may report it first.
const std::string silent_or_cut_short = std::string("(") + silent + "|" + cut_short + ")";

void expect_match(const std::string& text, const std::string& expected) {
  EXPECT_TRUE(std::regex_search(text, std::regex(expected))) << text << "\nshould match\n" << expected;
}

/// A relay before the data links of a process that is not yet started, which advertises the relay's address.
relay before_data(travel how = {}) { return {relays_at, {processes_at, 0}, how}; }

place behind(const relay& data, const relay& control) {
  return {.options = {"--advertise", links::to_string(data.address())}, .master = control.address()};
}

// -- connections that fail ----------------------------------------------------------

/// An endless run of two servers and two trainers, one of which reaches the others through relays.
class FailingConnectionTest : public testing::Test {
 protected:
  void start(const std::string& name_of_one) {
    who = name_of_one;
    run = std::make_unique<spread_run>(endless, soon);
    control = std::make_unique<relay>(relays_at, run->where());
    for (const std::string role : {"server", "trainer"}) {
      run->join(role, who == role + " 0" ? behind(data, *control) : place());
      run->join(role);
    }
    run->wait_until_it_trains();
    EXPECT_GT(control->passed(way::there), 0U);
    EXPECT_GT(data.passed(way::there), 0U);
  }

  /// Expects that all others blame that process, which blames the master.
  void expect_lost(const std::string& why, const std::string& its_why) {
    const auto told = run->finish_failed();
    const std::string became = why == silent ? "lost its connection" : "(died|lost its connection)";
    const std::string blame = who + R"( \(host [^ ]+, pid \d+\) )" + became + R"( in step \d+: )" + why;
    const std::size_t its_place = who == "server 0" ? 0 : 2;
    expect_match(told.master, blame);
    for (std::size_t i = 0; i < told.members.size(); ++i)
      expect_match(told.members[i], i != its_place ? blame
                                                   : "the master \\(" + links::to_string(control->address()) +
                                                         "\\) is gone in step \\d+: " + its_why);
  }

  /// Expects that all name two processes of the run, one of which is that process.
  void expect_link_lost(const std::string& why) {
    const auto told = run->finish_failed();
    std::vector<std::string> lines = told.members;
    lines.push_back(told.master);
    for (const std::string& line : lines) {
      expect_match(line, who + R"( \(host [^ ]+, pid \d+\))");
      expect_match(line, "(trainer 1|trainer 0).*step \\d+");
      expect_match(line, why);
    }
  }

  std::string who;
  std::unique_ptr<spread_run> run;
  std::unique_ptr<relay> control;
  relay data = before_data();
};

TEST_F(FailingConnectionTest, WhoIsNoMoreHeardByTheMasterIsLost) {
  start("trainer 0");
  control->swallow(way::there);
  expect_lost(silent, cut_short);
}

TEST_F(FailingConnectionTest, WhoHearsNoMoreOfTheMasterEndsTheRun) {
  start("server 0");
  control->swallow(way::back);
  expect_lost(cut_short, silent);
}

TEST_F(FailingConnectionTest, AControlConnectionThatIsOpenAndSilentIsNoticedOnBothSides) {
  start("server 0");
  control->swallow(way::there);
  control->swallow(way::back);
  expect_lost(silent, silent);
}

TEST_F(FailingConnectionTest, AControlConnectionThatIsLostEndsTheRun) {
  start("trainer 0");
  control->lose();
  expect_lost(cut_short, cut_short);
}

TEST_F(FailingConnectionTest, AServerThatIsNoMoreReachedEndsTheRun) {
  start("server 0");
  data.swallow(way::there);
  expect_link_lost(silent_or_cut_short);
}

TEST_F(FailingConnectionTest, AServerThatIsNoMoreHeardEndsTheRun) {
  start("server 0");
  data.swallow(way::back);
  expect_link_lost(silent_or_cut_short);
}

TEST_F(FailingConnectionTest, ADataLinkThatIsOpenAndSilentIsNoticed) {
  start("trainer 0");
  data.swallow(way::there);
  data.swallow(way::back);
  expect_link_lost(silent);
}

TEST_F(FailingConnectionTest, ADataLinkThatIsLostEndsTheRun) {
  start("trainer 0");
  data.lose();
  expect_link_lost(cut_short);
}

// -- slow connections -----------------------------------------------------------------

/// Runs the job; one server and one trainer have connections of this kind in both directions.
std::string digest_of_slow_run(const args& job, travel how) {
  spread_run run(job, soon);
  const relay control(relays_at, run.where(), how);
  const relay before_server = before_data(how);
  const relay before_trainer = before_data(how);
  run.join("server", behind(before_server, control));
  run.join("server");
  run.join("trainer", behind(before_trainer, control));
  run.join("trainer");
  const std::string digest = run.finish();
  for (const relay* one : {&control, &before_server, &before_trainer}) EXPECT_GT(one->passed(way::there), 0U);
  return digest;
}

TEST(SlowConnectionTest, FiftyMillisecondsEachWayChangeNoBit) {
  const args job = {"--data", "tutorial", "--epochs", "1", "--servers", "2", "--trainers", "2"};
  EXPECT_EQ(digest_of_slow_run(job, {.delay = 50ms}), digest_of_one_process(job));
}

TEST(SlowConnectionTest, FramesThatTakeLongerThanSilenceMayLastAreNoDeath) {
  // A bucket of 1 MB, of which the trainers exchange halves: each takes 1.25 s.
  const args job = {"--data",       "synthetic", "--rows",    "100", "--hidden",   "500,500", "--bucket-mib", "8",
                    "--batch-size", "8",         "--servers", "2",   "--trainers", "2",       "--steps",      "2"};
  EXPECT_EQ(digest_of_slow_run(job, {.bytes_per_s = 400'000}), digest_of_one_process(job));
}

}  // namespace
}  // namespace troupe::hosts::relays_test
