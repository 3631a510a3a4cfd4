// The allowed order of a trainer's phases.

#include "actors/trainer/trainer_phase.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace troupe::actors::trainer_phase_test {
namespace {

using enum trainer_phase;

TEST(TrainerPhases, NothingFollowsButWhatTheDiagramHas) {
  const std::set<std::pair<trainer_phase, trainer_phase>> legal = {
      {idle, looking_up},     {idle, evaluating},   {idle, saving},     {idle, done},
      {looking_up, reducing}, {reducing, saving},   {reducing, done},   {reducing, evaluating},
      {reducing, looking_up}, {evaluating, saving}, {evaluating, done}, {evaluating, looking_up},
      {saving, looking_up},   {saving, done},       {idle, failed},     {looking_up, failed},
      {reducing, failed},     {evaluating, failed}, {saving, failed}};
  for (const auto from : {idle, looking_up, reducing, evaluating, saving, done, failed})
    for (const auto to : {idle, looking_up, reducing, evaluating, saving, done, failed})
      EXPECT_EQ(may_follow(from, to), legal.contains({from, to})) << int(from) << " to " << int(to);
}

TEST(TrainerPhases, DoneAndFailedAreTheEnd) {
  for (const auto one : {idle, looking_up, reducing, evaluating, saving, done, failed})
    EXPECT_EQ(is_over(one), one == done || one == failed) << int(one);
}

}  // namespace
}  // namespace troupe::actors::trainer_phase_test
