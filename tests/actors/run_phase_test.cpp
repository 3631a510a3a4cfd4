// A run passes through its phases in one direction, and may end in any of them.

#include "actors/master/run_phase.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors::run_phase_test {
namespace {

using enum run_phase;

const std::vector<run_phase> all = {unordered, gathering, connecting, making_tables, training, collecting, over};

TEST(RunPhases, NothingFollowsButTheNextPhaseOrTheEnd) {
  // A run in one process skips `connecting`, as it has no links to make.
  const std::set<std::pair<run_phase, run_phase>> legal = {
      {unordered, gathering},    {gathering, connecting}, {gathering, making_tables}, {connecting, making_tables},
      {making_tables, training}, {training, collecting},  {unordered, over},          {gathering, over},
      {connecting, over},        {making_tables, over},   {training, over},           {collecting, over}};
  for (const run_phase from : all)
    for (const run_phase to : all)
      EXPECT_EQ(may_follow(from, to), legal.contains({from, to}))
          << description_of(from) << " to " << description_of(to);
}

TEST(RunPhases, ARunIsUnderWayFromTheMomentWhenNobodyCanJoinUntilItsEnd) {
  for (const run_phase one : all)
    EXPECT_EQ(is_under_way(one), one == connecting || one == making_tables || one == training || one == collecting)
        << description_of(one);
}

TEST(RunPhases, UsersAreToldWhatTheyHaveAlwaysBeenTold) {
  std::vector<std::string> told;
  for (const run_phase one : all) told.emplace_back(description_of(one));
  EXPECT_EQ(told, (std::vector<std::string>{"waiting for members", "waiting for members", "connecting", "making tables",
                                            "training", "collecting weights", "over"}));
}

}  // namespace
}  // namespace troupe::actors::run_phase_test
