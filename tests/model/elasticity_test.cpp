#include "model/elasticity.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/checkpoint/resume.hpp"
#include "model/job.hpp"

namespace troupe::model::elasticity_test {
namespace {

using settings = std::vector<setting>;

job parsed(settings more) {
  settings all = {{"data", "adult"}, {"elastic", "1:8"}};
  all.insert(all.end(), more.begin(), more.end());
  auto made = parse_job(all);
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(job());
}

std::string elastic_refusal(const settings& all) {
  const auto made = parse_job(all);
  return made ? "" : made.error().message;
}

TEST(Elasticity, BeginsWithTheFirstMembership) {
  EXPECT_EQ(to_string(parsed({{"trainers", "3"}}).elastic.memberships), "0:3");
  EXPECT_EQ(parsed({{"memberships", "0:4,10:1"}}).trainers, 4U);
}

TEST(Elasticity, IsWrittenAsItIsRead) {
  const job what = parsed(
      {{"memberships", "0:2,120:4,300:3"}, {"trainers", "4"}, {"elastic-batch", "rank"}, {"elastic-lr", "sqrt"}});
  const auto again = parse_job(to_settings(what)).value();
  EXPECT_EQ(again.elastic.memberships, what.elastic.memberships);
  EXPECT_EQ(again.trainers, 4U);
  EXPECT_EQ(again.elastic_batch, elastic_batch_kind::rank);
  EXPECT_EQ(again.elastic_lr, elastic_lr_rule::sqrt);
  EXPECT_EQ(again.elastic.trainers_min, 1U);
  EXPECT_EQ(again.elastic.trainers_max, 8U);
  for (const auto& [name, text] : to_settings(parse_job({{"data", "adult"}}).value()))
    EXPECT_TRUE(name.find("elastic") == std::string::npos && name != "memberships") << name;
}

TEST(Elasticity, ChangesFromAStepOn) {
  const auto all = parse_memberships("0:2,120:4,300:3").value();
  EXPECT_EQ(trainers_at(all, 0), 2U);
  EXPECT_EQ(trainers_at(all, 119), 2U);
  EXPECT_EQ(trainers_at(all, 120), 4U);
  EXPECT_EQ(trainers_at(all, 1000), 3U);
  EXPECT_EQ(next_change(all, 119), 120U);
  EXPECT_EQ(next_change(all, 120), 300U);
  EXPECT_EQ(next_change(all, 300), std::nullopt);
  EXPECT_EQ(to_string(changed(all, 200, 1)), "0:2,120:4,200:1");
  EXPECT_EQ(to_string(changed(all, 120, 2)), "0:2");
  EXPECT_EQ(to_string(changed(all, 0, 5)), "0:5");
}

TEST(Elasticity, KeepsTheSamplesOfAStepOrOfATrainer) {
  const job total = parsed({{"batch-size", "64"}, {"memberships", "0:2,10:3"}, {"trainers", "3"}});
  EXPECT_EQ(samples_of_step(total, 3), 128U);
  EXPECT_EQ(batch_of_trainer(total), 43U);
  const job rank =
      parsed({{"batch-size", "64"}, {"memberships", "0:2,10:3"}, {"trainers", "3"}, {"elastic-batch", "rank"}});
  EXPECT_EQ(samples_of_step(rank, 3), 192U);
  EXPECT_EQ(batch_of_trainer(rank), 64U);
}

TEST(Elasticity, ScalesLearningRatesWithTheSamplesOfAStep) {
  optimizer_spec base;
  base.lr = 0.25;
  const auto rate = [&](const char* rule) {
    return with_rates_of_members(
               base,
               parsed(
                   {{"memberships", "0:2,10:6"}, {"trainers", "6"}, {"elastic-batch", "rank"}, {"elastic-lr", rule}}))
        .lr;
  };
  EXPECT_EQ(rate("none"), 0.25);
  EXPECT_EQ(rate("linear"), 0.75);
  EXPECT_EQ(rate("sqrt"), 0.25 * std::sqrt(3.0));
}

TEST(Elasticity, RefusesWhatItCannotBe) {
  const std::pair<settings, const char*> wrong[] = {
      {{{"elastic", "2"}}, "--elastic 2: must be MIN:MAX"},
      {{{"elastic", "4:2"}}, "--elastic 4:2: must be MIN:MAX"},
      {{{"elastic", "0:2"}}, "--elastic 0:2: must be MIN:MAX"},
      {{{"elastic", "1:2000"}}, "--elastic 1:2000: must be MIN:MAX"},
      {{{"elastic", "3:4"}, {"trainers", "2"}}, "--trainers 2: must be between 3 and 4"},
      {{{"elastic", "1:4"}, {"memberships", "0:2,50:5"}},
       "--memberships: 5 trainers from step 50 on: must be between 1 and 4"},
      {{{"elastic", "1:4"}, {"memberships", "1:2"}}, "must begin with step 0"},
      {{{"elastic", "1:4"}, {"memberships", "0:2,50:3,50:4"}}, "50 is out of order"},
      {{{"elastic", "1:4"}, {"memberships", "0:2,50:2"}}, "step 50 changes nothing"},
      {{{"elastic", "1:4"}, {"memberships", "0:2,x"}}, "pairs STEP:TRAINERS"},
      {{{"elastic", "1:4"}, {"memberships", "0:2,50:4"}, {"trainers", "3"}},
       "--trainers 3: --memberships 0:2,50:4 has no step"},
      {{{"elastic", "1:4"}, {"memberships", "0:2,50:4"}, {"accumulate", "4"}}, "step 50 is within an optimizer step"},
      {{{"elastic", "1:4"}, {"consistency", "async"}}, "needs --consistency sync"},
      {{{"elastic", "1:4"}, {"elastic-lr", "linear"}}, "--elastic-lr linear: with --elastic-batch total"},
      {{{"elastic", "1:4"}, {"batch-size", "1"}, {"trainers", "2"}, {"memberships", "0:2,5:3"}},
       "a step has 2 samples"},
      {{{"elastic-batch", "rank"}}, "--elastic-batch rank: is for jobs with --elastic MIN:MAX"},
      {{{"memberships", "0:2"}}, "--memberships 0:2: is for jobs with --elastic MIN:MAX"},
      {{{"data", "tutorial"}, {"elastic", "1:4"}}, "tutorial has no such setting"},
  };
  for (const auto& [given, text] : wrong)
    EXPECT_NE(elastic_refusal(given).find(text), std::string::npos) << elastic_refusal(given) << "\n" << text;
}

TEST(Elasticity, AddsUpWhatOtherRanksHaveCounted) {
  run_position saved;
  saved.ranks = {{1.5, 10}, {2.25, 11}, {4, 12}};
  EXPECT_EQ(positions_of(saved, 3), saved.ranks);
  const std::vector<rank_position> two = {{7.75, 33}, {0, 0}};
  EXPECT_EQ(positions_of(saved, 2), two);
}

}  // namespace
}  // namespace troupe::model::elasticity_test
