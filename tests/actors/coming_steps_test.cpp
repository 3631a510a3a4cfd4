// Which steps a trainer prepares and looks up, and in which order: batches carry their step, and the test gives their
// rows.

#include "actors/trainer/coming_steps.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "protocol/errors.hpp"

namespace troupe::actors::coming_steps_test {
namespace {

/// The steps from `done` + 1 to `last`; the batch of step `bad` cannot be made.
coming_steps steps_after(std::uint64_t done, std::uint64_t last, std::uint64_t bad = 0) {
  return {done, last, nullptr, 0, [bad](std::uint64_t step) -> caf::expected<coming_steps::context> {
            if (step == bad) return protocol::make_failure(protocol::errc::bad_input, "step {}", step);
            coming_steps::context made;
            made.step = step;
            return made;
          }};
}

TEST(ComingSteps, OneIsPreparedBeyondThoseLookedUp) {
  coming_steps coming = steps_after(4, 7);
  EXPECT_TRUE(coming.empty());
  EXPECT_EQ(coming.lacking(), 5u);
  EXPECT_FALSE(coming.prepare());
  EXPECT_EQ(coming.lacking(), std::nullopt);
  EXPECT_EQ(coming.looked_up(), 4u);
  EXPECT_EQ(coming.look_up_next().step, 5u);
  EXPECT_EQ(coming.looked_up(), 5u);
  EXPECT_EQ(coming.lacking(), 6u);
  EXPECT_FALSE(coming.prepare());
  EXPECT_EQ(coming.first().step, 5u);
  EXPECT_EQ(coming.take_first().step, 5u);
  EXPECT_EQ(coming.first().step, 6u);
  EXPECT_EQ(coming.lacking(), std::nullopt);
}

TEST(ComingSteps, BehindTheLastNoneIsLacking) {
  EXPECT_EQ(steps_after(7, 7).lacking(), std::nullopt);
  coming_steps coming = steps_after(6, 7);
  EXPECT_FALSE(coming.prepare());
  coming.look_up_next();
  EXPECT_EQ(coming.lacking(), std::nullopt);
  coming.take_first();
  EXPECT_TRUE(coming.empty());
  EXPECT_EQ(coming.lacking(), std::nullopt);
}

TEST(ComingSteps, RowsAreHereWhenNoStepUpToThereOwesOne) {
  coming_steps coming = steps_after(0, 9);
  for (std::size_t owed : {0, 2, 1}) {
    ASSERT_FALSE(coming.prepare());
    coming.look_up_next().unanswered = owed;
  }
  EXPECT_EQ(coming.unanswered(), 3u);
  EXPECT_TRUE(coming.have_rows(1));
  EXPECT_FALSE(coming.have_rows(2));
  coming.of(2).unanswered = 0;
  EXPECT_TRUE(coming.have_rows(2));
  EXPECT_FALSE(coming.have_rows(3));
}

TEST(ComingSteps, ABatchThatCannotBeMadeIsAnError) {
  coming_steps coming = steps_after(0, 9, 2);
  EXPECT_FALSE(coming.prepare());
  coming.look_up_next();
  EXPECT_TRUE(coming.prepare());
  EXPECT_EQ(coming.lacking(), 2u);
}

}  // namespace
}  // namespace troupe::actors::coming_steps_test
