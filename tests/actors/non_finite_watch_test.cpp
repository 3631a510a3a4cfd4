// Reports of the watch about NaN and Inf, and their times.

#include "actors/trainer/non_finite_watch.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/device_array.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/needs_device.hpp"

namespace troupe::actors::non_finite_watch_test {
namespace {

kernels::stream& on = kernels::host_stream();

std::vector<float> bad_at(std::size_t place, float number) {
  std::vector<float> numbers(10, 1.0F);
  numbers[place] = number;
  return numbers;
}

TEST(NonFiniteWatch, TheFirstOfTheFirstStepIsNamed) {
  non_finite_watch watch(on, 4);
  const std::vector<float> good(10, 1.0F);
  const auto nan = bad_at(7, std::numeric_limits<float>::quiet_NaN());
  const auto infinite = bad_at(0, -std::numeric_limits<float>::infinity());
  watch.look(on, 3, good.data(), 10, "this");
  watch.look(on, 3, nan.data(), 10, "that");
  watch.look(on, 4, infinite.data(), 10, "another");
  watch.fetch(on);
  const auto found = watch.check_finite(3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 3U);
  EXPECT_EQ(found->description(),
            "that is NaN (number 7 of 10); try a smaller learning rate (--dense-lr, --sparse-lr)");
  EXPECT_FALSE(watch.check_finite(3)) << "it is reported once, and the next step's is not checked yet";
  const auto next = watch.check_finite(4);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->description(),
            "another is Inf (number 0 of 10); try a smaller learning rate (--dense-lr, --sparse-lr)");
}

TEST(NonFiniteWatch, NothingIsKnownBeforeItHasBeenFetched) {
  non_finite_watch watch(on, 4);
  const auto nan = bad_at(1, std::numeric_limits<float>::quiet_NaN());
  watch.look(on, 1, nan.data(), 10, "this");
  EXPECT_FALSE(watch.check_finite(9));
  watch.fetch(on);
  EXPECT_TRUE(watch.check_finite(9));
}

class NonFiniteWatchGpu : public needs_device {};

TEST_F(NonFiniteWatchGpu, OnlyWhatTheHostHasWaitedForIsJudged) {
  const auto stream = kernels::cuda_backend().open(0).make_stream();
  non_finite_watch watch(*stream, 4);
  kernels::device_array<float> numbers;
  kernels::assign<float>(*stream, bad_at(1, std::numeric_limits<float>::quiet_NaN()), numbers);
  watch.look(*stream, 1, numbers.data(), 10, "this");
  EXPECT_EQ(watch.fetch(*stream), 1U);
  watch.look(*stream, 1, numbers.data(), 10, "that");
  EXPECT_EQ(watch.fetch(*stream), 2U);
  stream->synchronize();
  EXPECT_FALSE(watch.check_finite(1));
  watch.know(1);
  const auto first = watch.check_finite(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->what, "this");
  EXPECT_FALSE(watch.check_finite(1));
  watch.know(2);
  const auto second = watch.check_finite(1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->what, "that");
}

TEST(NonFiniteWatch, PlacesAreUsedRoundAndRound) {
  non_finite_watch watch(on, 3);
  const std::vector<float> good(10, 1.0F);
  for (std::uint64_t step = 1; step < 20; ++step) {
    const auto bad = bad_at(step % 10, std::numeric_limits<float>::infinity());
    watch.look(on, step, good.data(), 10, "good");
    watch.look(on, step, bad.data(), 10, "bad");
    watch.fetch(on);
    const auto found = watch.check_finite(step);
    ASSERT_TRUE(found) << step;
    EXPECT_EQ(found->place, step % 10);
    EXPECT_EQ(found->step, step);
  }
}

/// The number of calls does not depend on the position of the first bad number.
TEST_F(NonFiniteWatchGpu, AStepsSearchesAreFetchedByOneCopy) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts";
  constexpr std::size_t searches = 2;
  const auto stream = kernels::cuda_backend().open(0).make_stream();
  non_finite_watch watch(*stream, 3 * searches, searches);
  kernels::device_array<float> numbers;
  kernels::assign<float>(*stream, bad_at(1, std::numeric_limits<float>::infinity()), numbers);
  watch.look(*stream, 0, numbers.data(), 10, "an evaluation");
  watch.know(watch.fetch(*stream));
  stream->synchronize();
  EXPECT_TRUE(watch.check_finite(0));
  for (std::uint64_t step = 1; step <= 20; ++step) {
    for (std::size_t i = 0; i < searches; ++i) watch.look(*stream, step, numbers.data(), i == 0 ? 1 : 10, "this");
    const std::uint64_t before = emulated_cuda::counts_now()->direct_calls;
    watch.know(watch.fetch(*stream));
    EXPECT_EQ(emulated_cuda::counts_now()->direct_calls, before + 1);
    stream->synchronize();
    const auto found = watch.check_finite(step);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step, step);
    EXPECT_EQ(found->count, 10U);
  }
}

TEST(NonFiniteWatchDeathTest, MoreSearchesThanItWasMadeForAreABug) {
  non_finite_watch watch(on, 1);
  const std::vector<float> good(10, 1.0F);
  watch.look(on, 1, good.data(), 10, "this");
  EXPECT_DEATH(watch.look(on, 1, good.data(), 10, "that"), "assertion failed: open_.size\\(\\) < open_max_");
}

}  // namespace
}  // namespace troupe::actors::non_finite_watch_test
