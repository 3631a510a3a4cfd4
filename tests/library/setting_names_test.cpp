// The names of a run's settings in the errors of programs.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "troupe/runtime/setting_names.hpp"

namespace troupe::runtime::setting_names_test {
namespace {

std::string named(const std::string& text, const std::vector<std::string>& own = {}) {
  return with_source_names(text, own);
}

TEST(SettingNames, AreThoseOfTheSource) {
  EXPECT_EQ(named("--clip-norm 1: not with --consistency async; leave out --nan skip, or --accumulate 2"),
            "clip_norm 1: not with consistency async; leave out nan skip, or accumulate 2");
  EXPECT_EQ(named("--run-nan skip: the checkpoint has no --run-nan"), "nan skip: the checkpoint has no nan");
  EXPECT_EQ(named("--trainers-of-run 3, --trainers"), "trainers 3, trainers");
}

TEST(SettingNames, AreWholeWords) {
  const std::string others = "--nano 1, --accumulate-all, --run-trainers 2, --seed 3, clip-norm";
  EXPECT_EQ(named(others), others);
}

TEST(SettingNames, OfTheProgramsOwnOptionsStay) {
  EXPECT_EQ(named("--clip-norm -1: must be positive; --nan skip", {"seed", "clip-norm"}),
            "--clip-norm -1: must be positive; nan skip");
  EXPECT_EQ(named("--run-clip-norm 2: the checkpoint has --run-clip-norm 1", {"clip-norm"}),
            "--clip-norm 2: the checkpoint has --clip-norm 1");
  EXPECT_EQ(named("--run-nan 2", {"run-nan"}), "--run-nan 2");
}

}  // namespace
}  // namespace troupe::runtime::setting_names_test
