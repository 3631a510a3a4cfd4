// When checkpoints are due by time, on a clock set by the test.

#include "actors/trainer/checkpoint_timer.hpp"

#include <gtest/gtest.h>

namespace troupe::actors::checkpoint_timer_test {
namespace {

class CheckpointTimer : public testing::Test {
 protected:
  static checkpoint_timer::clock::time_point at(double seconds) {
    return checkpoint_timer::clock::time_point(
        std::chrono::duration_cast<checkpoint_timer::clock::duration>(std::chrono::duration<double>(seconds)));
  }
};

TEST_F(CheckpointTimer, OneIsDueAFixedTimeAfterTheBeginningOfTheLast) {
  checkpoint_timer timer(10, 0);
  timer.start(at(100), 0);
  EXPECT_FALSE(timer.is_due(at(109.9)));
  EXPECT_TRUE(timer.is_due(at(110)));
  timer.begins(at(112), 5);
  EXPECT_FALSE(timer.is_due(at(200))) << "one is being written";
  timer.ends(at(115), 5);
  EXPECT_FALSE(timer.is_due(at(121.9)));
  EXPECT_TRUE(timer.is_due(at(122)));
  EXPECT_EQ(timer.seconds(), 10) << "whatever it costs";
}

TEST_F(CheckpointTimer, OneOfAnotherKindPutsItOff) {
  checkpoint_timer timer(10, 0);
  timer.start(at(0), 40);
  timer.begins(at(9), 50);
  timer.ends(at(9.5), 50);
  EXPECT_FALSE(timer.is_due(at(18)));
  EXPECT_TRUE(timer.is_due(at(19)));
}

// Young: sqrt(2 * 2 s * 10,000 s) = 200 s.
TEST_F(CheckpointTimer, ForWhichTrainersStandStillCostsAllOfItsTime) {
  checkpoint_timer timer(0, 10'000);
  timer.start(at(0), 0);
  EXPECT_FALSE(timer.is_due(at(59)));
  EXPECT_TRUE(timer.is_due(at(60))) << "the first one measures";
  timer.begins(at(60), 600);
  timer.ends(at(62), 600);
  EXPECT_DOUBLE_EQ(timer.seconds(), 200);
  EXPECT_FALSE(timer.is_due(at(259.9)));
  EXPECT_TRUE(timer.is_due(at(260)));
  // From the mean of 2 s and 6 s.
  timer.begins(at(260), 2000);
  timer.ends(at(266), 2000);
  EXPECT_DOUBLE_EQ(timer.seconds(), std::sqrt(2.0 * 4 * 10'000));
}

// Without a checkpoint, steps take 0.1 s. During the 10 s of this one there are 95 steps, so it has cost half a second.
TEST_F(CheckpointTimer, WrittenBesideStepsCostsByHowMuchItHasSlowedThem) {
  checkpoint_timer timer(0, 10'000);
  timer.start(at(0), 1000);
  timer.begins(at(60), 1600);
  timer.ends(at(70), 1695);
  EXPECT_NEAR(timer.seconds(), 100, 1e-6);
}

TEST_F(CheckpointTimer, ThatHasCostNothingDoesNotFollowAtOnce) {
  checkpoint_timer timer(0, 10'000);
  timer.start(at(0), 0);
  timer.begins(at(60), 600);
  timer.ends(at(70), 720);
  EXPECT_NEAR(timer.seconds(), std::sqrt(2 * 0.1 * 10'000), 1e-6) << "a hundredth of its time counts";
  checkpoint_timer often(0, 1);
  often.start(at(0), 0);
  often.begins(at(60), 600);
  often.ends(at(70), 600);
  EXPECT_DOUBLE_EQ(often.seconds(), 10) << "sqrt(2 * 10 s * 1 s) is less than it takes";
}

}  // namespace
}  // namespace troupe::actors::checkpoint_timer_test
