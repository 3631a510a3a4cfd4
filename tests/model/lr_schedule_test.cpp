#include "model/lr_schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace troupe::model::lr_schedule_test {
namespace {

lr_schedule parsed(const std::string& text) {
  const auto schedule = parse_lr_schedule(text);
  EXPECT_TRUE(schedule.has_value()) << text << ": " << (schedule ? "" : schedule.error().message);
  return schedule.value_or(lr_schedule{});
}

std::string refusal(const std::string& text) {
  const auto schedule = parse_lr_schedule(text);
  EXPECT_FALSE(schedule.has_value()) << text;
  return schedule ? "" : schedule.error().message;
}

/// The factors of steps 1 to `last`.
std::vector<double> factors(const std::string& text, std::uint64_t last) {
  const auto schedule = parsed(text);
  std::vector<double> values;
  for (std::uint64_t step = 1; step <= last; ++step) values.push_back(factor_at(schedule, step));
  return values;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-15) << "step " << i + 1;
}

TEST(LrSchedule, ConstantIsOneForEver) {
  EXPECT_EQ(lr_schedule{}, parsed("constant"));
  EXPECT_EQ(factors("constant", 3), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(factor_at({}, 1'000'000'000'000), 1);
}

TEST(LrSchedule, WarmupClimbsInEqualStepsAndStays) {
  EXPECT_EQ(factors("warmup:4", 7), (std::vector<double>{0.25, 0.5, 0.75, 1, 1, 1, 1}));
  EXPECT_EQ(factors("warmup:1", 2), (std::vector<double>{1, 1}));
}

TEST(LrSchedule, StepMultipliesByGammaAfterEverySoMany) {
  EXPECT_EQ(factors("step:2,0.5", 7), (std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25, 0.125}));
  EXPECT_NEAR(factor_at(parsed("step:30,0.1"), 90), 0.01, 1e-17);
  EXPECT_NEAR(factor_at(parsed("step:30,0.1"), 91), 0.001, 1e-18);
  // Much later, the factor is 0 and still finite.
  EXPECT_EQ(factor_at(parsed("step:1,0.1"), 1'000'000'000'000), 0);
}

// cos of 0, 60 and 120 degrees: 1, 1/2, -1/2.
TEST(LrSchedule, CosineFallsAlongHalfAWaveToZero) {
  expect_near(factors("cosine:3", 5), {1, 0.75, 0.25, 0, 0});
  for (std::uint64_t step = 1; step <= 100; ++step)
    EXPECT_NEAR(factor_at(parsed("cosine:100"), step), std::pow(std::cos(M_PI * (double(step) - 1) / 200), 2), 1e-15);
  EXPECT_EQ(factor_at(parsed("cosine:100"), 101), 0);
}

TEST(LrSchedule, PiecesFollowOneAnotherAndCountFromOneEach) {
  expect_near(factors("warmup:2+cosine:3", 7), {0.5, 1, 1, 0.75, 0.25, 0, 0});
  expect_near(factors("warmup:2+step:2,0.5", 7), {0.5, 1, 1, 1, 0.5, 0.5, 0.25});
  expect_near(factors("cosine:3+warmup:2+constant", 7), {1, 0.75, 0.25, 0.5, 1, 1, 1});
  expect_near(factors("warmup:2+warmup:2+cosine:1", 6), {0.5, 1, 0.5, 1, 1, 0});
}

TEST(LrSchedule, TextSurvives) {
  for (const char* text : {"constant", "warmup:100", "step:30,0.1", "cosine:1000", "warmup:5+cosine:7+step:1,1",
                           "warmup:1000000000000+constant", "step:3,1e-07"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
    EXPECT_EQ(parsed(to_string(parsed(text))), parsed(text));
  }
}

TEST(LrSchedule, APieceAfterOneThatNeverEndsIsRefused) {
  EXPECT_EQ(refusal("constant+warmup:5"), "constant never ends, so nothing can follow it; put it last");
  EXPECT_EQ(refusal("warmup:5+step:3,0.5+cosine:9"), "step never ends, so nothing can follow it; put it last");
}

TEST(LrSchedule, MalformedTextIsRefusedWithTheFormAndTheLimit) {
  EXPECT_EQ(refusal("cosin:5"),
            "unknown schedule cosin; the nearest is cosine, and there are constant, warmup, step or cosine");
  EXPECT_EQ(refusal("warmup"), "warmup must be of the form warmup:STEPS");
  EXPECT_EQ(refusal("warmup:1,2"), "warmup:1,2 must be of the form warmup:STEPS");
  EXPECT_EQ(refusal("constant:1"), "constant:1 must be of the form constant");
  EXPECT_EQ(refusal("step:5"), "step:5 must be of the form step:EVERY,GAMMA");
  EXPECT_EQ(refusal("warmup:0"), "warmup: its steps must be a whole number between 1 and 1000000000000, not 0");
  EXPECT_EQ(refusal("cosine:-1"), "cosine: its steps must be a whole number between 1 and 1000000000000, not -1");
  EXPECT_EQ(refusal("cosine:1.5"), "cosine: its steps must be a whole number between 1 and 1000000000000, not 1.5");
  EXPECT_EQ(refusal("warmup:"), "warmup: its steps must be a whole number between 1 and 1000000000000, not ''");
  EXPECT_EQ(refusal("step:5,0"), "step: its factor must be a number above 0 and at most 1, not 0");
  EXPECT_EQ(refusal("step:5,1.5"), "step: its factor must be a number above 0 and at most 1, not 1.5");
  EXPECT_EQ(refusal("step:5,nan"), "step: its factor must be a number above 0 and at most 1, not nan");
  EXPECT_EQ(refusal("step:5,x"), "step: its factor must be a number above 0 and at most 1, not x");
  for (const char* text : {"", "+", "warmup:5+", "+constant", "warmup:5++constant"})
    EXPECT_EQ(refusal(text).find("unknown schedule ''"), 0U) << text;
  std::string many = "warmup:1";
  for (int i = 0; i < 64; ++i) many += "+warmup:1";
  EXPECT_EQ(refusal(many), "has more than 64 pieces");
}

}  // namespace
}  // namespace troupe::model::lr_schedule_test
