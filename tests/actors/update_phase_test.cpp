// The allowed order of phases in a server's next optimizer step.

#include "actors/server/update_phase.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace troupe::actors::update_phase_test {
namespace {

using enum update_phase;

TEST(UpdatePhases, NothingFollowsButWhatTheDiagramHas) {
  const std::set<std::pair<update_phase, update_phase>> legal = {
      {gathering, collected}, {collected, gathering}, {collected, held_up}, {held_up, collected}};
  for (const auto from : {gathering, collected, held_up})
    for (const auto to : {gathering, collected, held_up})
      EXPECT_EQ(may_follow(from, to), legal.contains({from, to})) << int(from) << " to " << int(to);
}

}  // namespace
}  // namespace troupe::actors::update_phase_test
