// The number of trainers with which a run continues: from its job, from a request, and errors.

#include "actors/master/trainer_changes.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace troupe::actors::trainer_changes_test {
namespace {

constexpr std::uint64_t total_steps = 100;

trainer_rules at_most_four(std::uint64_t after = 0, std::uint32_t to = 0) {
  return {after, to, [](std::uint32_t trainers, std::uint64_t step) -> std::optional<std::string> {
            if (trainers <= 4) return std::nullopt;
            return std::to_string(trainers) + " after " + std::to_string(step);
          }};
}

TEST(TrainerChanges, TheJobSaysAfterWhichStep) {
  const trainer_changes changes;
  const trainer_rules rules = at_most_four(20, 3);
  EXPECT_EQ(changes.after(19, rules, total_steps), 0U);
  EXPECT_EQ(changes.after(20, rules, total_steps), 3U);
  EXPECT_EQ(changes.after(21, rules, total_steps), 0U);
  EXPECT_EQ(changes.after(20, rules, 20), 0U) << "there is no step left";
}

TEST(TrainerChanges, WhatIsAskedForComesFirst) {
  trainer_changes changes;
  const trainer_rules rules = at_most_four(20, 3);
  EXPECT_EQ(changes.ask(5, rules, run_phase::training, 7), "5 after 7");
  EXPECT_EQ(changes.after(8, rules, total_steps), 0U) << "it was refused";
  EXPECT_EQ(changes.ask(2, rules, run_phase::training, 8), std::nullopt);
  EXPECT_EQ(changes.after(8, rules, total_steps), 2U);
  EXPECT_EQ(changes.after(20, rules, total_steps), 2U);
  EXPECT_EQ(changes.ask(4, rules, run_phase::training, 8), "it is about to continue with 2");
}

TEST(TrainerChanges, ARunThatStopsGoesOnWithNone) {
  trainer_changes changes;
  const trainer_rules rules = at_most_four(20, 3);
  EXPECT_FALSE(changes.stops());
  EXPECT_EQ(changes.ask(2, rules, run_phase::training, 8), std::nullopt);
  changes.stop();
  EXPECT_TRUE(changes.stops());
  EXPECT_EQ(changes.after(8, rules, total_steps), 0U);
  EXPECT_EQ(changes.after(20, rules, total_steps), 0U);
  EXPECT_EQ(changes.ask(2, rules, run_phase::training, 8), "the run is being stopped");
}

TEST(TrainerChanges, ARunThatDoesNotTrainRefuses) {
  trainer_changes changes;
  EXPECT_EQ(changes.ask(2, {}, run_phase::unordered, 0),
            "the run is not training (it is waiting for members); ask again when it is")
      << "there is no plan yet";
  EXPECT_EQ(changes.ask(2, at_most_four(), run_phase::making_tables, 0),
            "the run is not training (it is making tables); ask again when it is");
  EXPECT_EQ(changes.ask(5, at_most_four(), run_phase::gathering, 0), "5 after 0");
  EXPECT_EQ(changes.after(1, at_most_four(), total_steps), 0U);
}

TEST(TrainerChanges, AProgramsRunRefuses) {
  trainer_changes changes;
  EXPECT_EQ(changes.ask(2, {}, run_phase::training, 1),
            "the run is a program's, which has as many trainers to its end; begin it anew with others");
}

}  // namespace
}  // namespace troupe::actors::trainer_changes_test
