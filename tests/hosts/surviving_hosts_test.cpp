// Goal: a run over three hosts survives their failures: a lost process is replaced, a network is partitioned and heals,
// the master is lost. Method: network namespaces; the digest must be that of one process.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/end_to_end/program.hpp"
#include "tests/hosts/host.hpp"
#include "tests/hosts/spread_run.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::hosts::surviving_hosts_test {
namespace {

const args job = {"--data", "tutorial", "--epochs", "1200", "--seed", "7", "--servers", "2", "--trainers", "2"};

/// Returns the process that leads the current attempt.
pid_t leader_of(pid_t supervisor) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", supervisor));
  pid_t leader = 0;
  children >> leader;
  return leader;
}

struct member_place {
  const char* role;
  const host* on;
};

class SurvivingHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_make_hosts()) GTEST_SKIP() << "skipped: needs CAP_NET_ADMIN";
    net_ = std::make_unique<three_hosts>();
  }

  void start(const args& what, const args& tracing = {}) {
    run_ = std::make_unique<spread_run>(with(what, {"--save", folder_.path(), "--checkpoint-every", "200"}),
                                        with({"--dead-after", "1"}, tracing), &net_->a, three_hosts::a_address);
    for (const host* on : {&net_->b, &net_->b}) join({"server", on});
    for (const host* on : {&net_->c, &net_->a}) join({"trainer", on});
  }

  void join(const member_place& one) {
    run_->join(one.role, {.on = one.on});
    places_.push_back(one);
  }

  void replace(std::size_t member) {
    const member_place lost = places_.at(member);
    places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(member));
    run_->kill(member);
    join(lost);
  }

  void lose_the_leader() { ASSERT_EQ(::kill(leader_of(run_->master().process()), SIGKILL), 0); }

  /// Cuts a host's network, and restores it once a process on the master's host has noticed.
  void cut_for_a_while(const host& receiver, const std::string& name) {
    const auto on_a = std::ranges::find(places_, &net_->a, &member_place::on) - places_.begin();
    end_to_end::program& member = run_->member(static_cast<std::size_t>(on_a));
    const std::size_t told = member.error().size();
    net_->cut(receiver);
    EXPECT_TRUE(member.wait_for_error(fmt::format("(host {}, pid ", name), told)) << member.error();
    net_->mend(receiver);
  }

  void wait_for_attempt(int number) {
    const std::string event = fmt::format("\"event\":\"attempt\",\"attempt\":{},", number);
    ASSERT_TRUE(run_->master().wait_for_output(event)) << run_->master().error();
  }

  void wait_for_checkpoint(int step) {
    const std::string event = fmt::format("\"event\":\"checkpoint\",\"step\":{},", step);
    ASSERT_TRUE(run_->master().wait_for_output(event)) << run_->master().error();
  }

  const model::checkpoint_folder folder_;
  std::unique_ptr<three_hosts> net_;
  std::unique_ptr<spread_run> run_;
  std::vector<member_place> places_;  ///< of members, in the order in which they joined
};

TEST_F(SurvivingHosts, HaveTheWeightsOfOneProcessWhateverIsLost) {
  start(job);
  wait_for_checkpoint(400);
  constexpr std::size_t trainer_on_c = 2;
  replace(trainer_on_c);
  wait_for_attempt(2);

  wait_for_checkpoint(2000);
  cut_for_a_while(net_->b, "b");
  wait_for_attempt(3);

  wait_for_checkpoint(5000);
  lose_the_leader();
  wait_for_attempt(4);

  ASSERT_TRUE(run_->master().wait_for_output("\"event\":\"done\"")) << run_->master().error();
  const std::string told = run_->master().output();
  EXPECT_EQ(run_->finish(), digest_of_one_process(job));
  for (const auto& one : end_to_end::json_lines(told.substr(0, told.rfind('\n') + 1)))
    if (one.at("event") == "attempt")
      RecordProperty(fmt::format("seconds_of_attempt_{}", one.at("attempt").to_number<int>()),
                     fmt::format("{}", one.at("seconds").to_number<double>()));
}

/// TROUPE_HOST_FAULTS: the number of faults, one every 2,000 steps, instead of a few; then nothing is recorded.
TEST_F(SurvivingHosts, HaveTheWeightsOfOneProcessAfterFaultsDrawnFromASeed) {
  const char* wanted = std::getenv("TROUPE_HOST_FAULTS");
  const int faults = wanted != nullptr ? std::stoi(wanted) : 4;
  constexpr int steps_between = 2000;
  const args steps = {"--data",     "tutorial", "--seed",     "7",
                      "--servers",  "2",        "--trainers", "2",
                      "--restarts", "20",       "--steps",    std::to_string((faults + 1) * steps_between)};
  const args tracing = wanted != nullptr ? args{"--trace", "off"} : args{};
  start(steps, tracing);
  std::mt19937 random(7);
  int kills = 0;
  for (int i = 1; i <= faults; ++i) {
    wait_for_checkpoint(i * steps_between);
    const auto kind = random() % 8;
    if (kind < places_.size()) replace(kind);
    if (kind == 4 || kind == 5) lose_the_leader();
    if (kind == 6) cut_for_a_while(net_->b, "b");
    if (kind == 7) cut_for_a_while(net_->c, "c");
    kills += kind < 6 ? 1 : 0;
    if (HasFailure()) return;
  }
  ASSERT_TRUE(run_->master().wait_for_output("\"event\":\"done\"")) << run_->master().error();
  const auto done = end_to_end::json_lines(run_->master().output()).back();
  EXPECT_GT(done.at("attempts").to_number<int>(), kills);
  RecordProperty("attempts", std::to_string(done.at("attempts").to_number<int>()));
  RecordProperty("goodput", std::to_string(done.at("goodput").to_number<double>()));
  EXPECT_EQ(run_->finish(), digest_of_one_process(with(steps, tracing)));
}

}  // namespace
}  // namespace troupe::hosts::surviving_hosts_test
