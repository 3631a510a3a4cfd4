// The buckets of one rank's gradient: what is in them, and what may follow what.

#include "actors/gradient_buckets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace troupe::actors::gradient_buckets_test {
namespace {

using enum gradient_buckets::state;

/// Layers of 2, 3 and 1 parameters, from the first to the last.
constexpr model::parameter_range first{0, 2};
constexpr model::parameter_range second{2, 3};
constexpr model::parameter_range third{5, 1};

/// Bucket 0 has the last two layers, bucket 1 the first.
gradient_buckets made() { return {kernels::host_stream(), {{2, 4}, {0, 2}}}; }

/// A layer's gradient, all `value`.
std::optional<std::uint32_t> write(gradient_buckets& to, model::parameter_range layer, float value, bool is_last_pass) {
  std::fill_n(to.gradient_at(layer), layer.count, value);
  return to.finished(layer, is_last_pass);
}

std::vector<float> numbers_of(const msg::tensor& share) {
  const auto numbers = share.as<float>();
  EXPECT_EQ(share.rows, numbers.size());
  return {numbers.begin(), numbers.end()};
}

TEST(GradientBuckets, NothingFollowsButWhatTheDiagramHas) {
  const std::set<std::pair<gradient_buckets::state, gradient_buckets::state>> legal = {
      {resting, filling}, {filling, full}, {full, reducing}, {filling, reducing}, {reducing, resting}};
  for (const auto from : {resting, filling, full, reducing})
    for (const auto to : {resting, filling, full, reducing})
      EXPECT_EQ(gradient_buckets::may_follow(from, to), legal.contains({from, to})) << int(from) << " to " << int(to);
}

TEST(GradientBuckets, OneIsFullWhenTheLastOfItsLayersIsWritten) {
  gradient_buckets buckets = made();
  buckets.open();
  buckets.begin_pass(false);
  EXPECT_EQ(write(buckets, third, 3, true), std::nullopt);
  EXPECT_EQ(buckets.state_of(0), filling);
  EXPECT_EQ(write(buckets, second, 2, true), 0U);
  EXPECT_EQ(buckets.state_of(0), full);
  EXPECT_EQ(numbers_of(buckets.share(0)), (std::vector<float>{2, 2, 2, 3}));
  EXPECT_EQ(buckets.state_of(0), reducing);
  EXPECT_EQ(write(buckets, first, 1, true), 1U) << "the pass goes on while the first bucket is away";
  EXPECT_EQ(numbers_of(buckets.share(1)), (std::vector<float>{1, 1}));
  EXPECT_EQ(buckets.batches(), 1U);
}

TEST(GradientBuckets, BatchesOfAnOptimizerStepAddUp) {
  gradient_buckets buckets = made();
  buckets.open();
  for (const float value : {1.0F, 10.0F, 100.0F}) {
    buckets.begin_pass(false);
    const bool is_last = value == 100.0F;
    write(buckets, third, 3 * value, is_last);
    EXPECT_EQ(write(buckets, second, 2 * value, is_last).has_value(), is_last);
    EXPECT_EQ(write(buckets, first, value, is_last).has_value(), is_last);
  }
  EXPECT_EQ(buckets.batches(), 3U);
  EXPECT_EQ(numbers_of(buckets.share(0)), (std::vector<float>{222, 222, 222, 333}));
  EXPECT_EQ(numbers_of(buckets.share(1)), (std::vector<float>{111, 111}));
}

TEST(GradientBuckets, LayersOfABatchMayBeWrittenInAnyOrderOnceTheirPlacesAreKnown) {
  gradient_buckets buckets = made();
  buckets.open();
  for (const float value : {1.0F, 10.0F, 100.0F}) {
    buckets.begin_pass(false);
    const bool is_last = value == 100.0F;
    float* const of_third = buckets.gradient_at(third);
    float* const of_second = buckets.gradient_at(second);
    float* const of_first = buckets.gradient_at(first);
    std::fill_n(of_first, first.count, value);
    std::fill_n(of_third, third.count, 3 * value);
    std::fill_n(of_second, second.count, 2 * value);
    EXPECT_EQ(buckets.finished(third, is_last), std::nullopt);
    EXPECT_EQ(buckets.finished(second, is_last).has_value(), is_last);
    EXPECT_EQ(buckets.finished(first, is_last).has_value(), is_last);
  }
  EXPECT_EQ(numbers_of(buckets.share(0)), (std::vector<float>{222, 222, 222, 333}));
  EXPECT_EQ(numbers_of(buckets.share(1)), (std::vector<float>{111, 111}));
}

TEST(GradientBuckets, ARankWithoutABatchSharesZerosThatCountAsNone) {
  gradient_buckets buckets = made();
  for (int step = 0; step < 2; ++step) {
    buckets.open();
    EXPECT_EQ(buckets.batches(), 0U);
    for (std::uint32_t i = 0; i < 2; ++i) {
      for (const float number : numbers_of(buckets.share(i))) EXPECT_EQ(number, 0.0F);
      buckets.settle(i);
      EXPECT_EQ(buckets.state_of(i), resting);
    }
  }
}

TEST(GradientBuckets, ASpoiltBatchShowsInEveryShareWhateverComesBehindIt) {
  gradient_buckets buckets = made();
  buckets.open();
  buckets.poison(false);
  EXPECT_EQ(buckets.batches(), 1U) << "so that the mean counts it";
  buckets.begin_pass(false);
  for (const auto& layer : {third, second, first}) write(buckets, layer, 1, true);
  for (std::uint32_t i = 0; i < 2; ++i)
    for (const float number : numbers_of(buckets.share(i))) EXPECT_TRUE(std::isnan(number));
}

TEST(GradientBuckets, AShareStaysAsItIsWhileTheNextStepIsWritten) {
  gradient_buckets buckets = made();
  buckets.open();
  buckets.begin_pass(false);
  for (const auto& layer : {third, second, first}) write(buckets, layer, 1, true);
  const msg::tensor kept = buckets.share(1);
  buckets.share(0);
  buckets.settle(0);
  buckets.settle(1);
  buckets.open();
  buckets.begin_pass(false);
  for (const auto& layer : {third, second, first}) write(buckets, layer, 5, true);
  EXPECT_EQ(numbers_of(kept), (std::vector<float>{1, 1}));
}

TEST(GradientBucketsDeathTest, AStepCannotBeginWhileAMeanIsMissing) {
  gradient_buckets buckets = made();
  buckets.open();
  buckets.share(0);
  EXPECT_DEATH(buckets.open(), "assertion failed: may_follow");
}

TEST(GradientBucketsDeathTest, ABucketLeavesOnceAndItsMeanComesOnce) {
  gradient_buckets buckets = made();
  buckets.open();
  buckets.share(0);
  EXPECT_DEATH(buckets.share(0), "assertion failed: may_follow");
  EXPECT_DEATH(buckets.gradient_at(third), "assertion failed: state_of");
  buckets.settle(0);
  EXPECT_DEATH(buckets.settle(0), "assertion failed: may_follow");
}

}  // namespace
}  // namespace troupe::actors::gradient_buckets_test
