// Goal: a run over three hosts survives what happens to hosts: a process is lost and another takes its place, a network
// is partitioned and heals, the master is lost. Method: network namespaces; the digest is that of one process.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>

#include "tests/end_to_end/program.hpp"
#include "tests/hosts/host.hpp"
#include "tests/hosts/spread_run.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::hosts::surviving_hosts_test {
namespace {

const words job = {"--data", "tutorial", "--epochs", "1200", "--seed", "7", "--servers", "2", "--trainers", "2"};

/// The process that leads the attempt under way.
pid_t leader_of(pid_t supervisor) {
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", supervisor));
  pid_t leader = 0;
  children >> leader;
  return leader;
}

class SurvivingHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_make_hosts()) GTEST_SKIP() << "skipped: needs CAP_NET_ADMIN";
    net_ = std::make_unique<three_hosts>();
    run_ = std::make_unique<spread_run>(with(job, {"--save", folder_.path(), "--checkpoint-every", "200"}),
                                        words{"--dead-after", "1"}, &net_->a, three_hosts::a_address);
    for (const host* on : {&net_->b, &net_->b}) run_->join("server", {.on = on});
    for (const host* on : {&net_->c, &net_->a}) run_->join("trainer", {.on = on});
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
};

TEST_F(SurvivingHosts, HaveTheWeightsOfOneProcessWhateverIsLost) {
  wait_for_checkpoint(400);
  constexpr std::size_t trainer_on_c = 2;
  run_->kill(trainer_on_c);
  run_->join("trainer", {.on = &net_->c});
  wait_for_attempt(2);

  wait_for_checkpoint(2000);
  net_->cut(net_->b);
  constexpr std::size_t trainer_on_a = 2;
  ASSERT_TRUE(run_->member(trainer_on_a).wait_for_error("(host b, pid "));
  net_->mend(net_->b);
  wait_for_attempt(3);

  wait_for_checkpoint(5000);
  ASSERT_EQ(::kill(leader_of(run_->master().process()), SIGKILL), 0);
  wait_for_attempt(4);

  ASSERT_TRUE(run_->master().wait_for_output("\"event\":\"done\"")) << run_->master().error();
  const std::string told = run_->master().output();
  EXPECT_EQ(run_->finish(), digest_of_one_process(job));
  for (const auto& one : end_to_end::json_lines(told.substr(0, told.rfind('\n') + 1)))
    if (one.at("event") == "attempt")
      RecordProperty(fmt::format("seconds_of_attempt_{}", one.at("attempt").to_number<int>()),
                     fmt::format("{}", one.at("seconds").to_number<double>()));
}

}  // namespace
}  // namespace troupe::hosts::surviving_hosts_test
