// The buckets of one rank's gradient: their layers, their contents, and the order of their states.

#include "actors/collective/gradient_buckets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::actors::gradient_buckets_test {
namespace {

using enum gradient_buckets::state;

/// Layers of 2, 3 and 1 parameters, in order.
constexpr nn::parameter_range first{0, 2};
constexpr nn::parameter_range second{2, 3};
constexpr nn::parameter_range third{5, 1};

/// Bucket 0 has the last two layers, bucket 1 the first one.
gradient_buckets made() { return {kernels::host_stream(), {{2, 4}, {0, 2}}}; }

/// Sets all numbers of a layer's gradient to `value`.
std::optional<std::uint32_t> write(gradient_buckets& to, nn::parameter_range layer, float value, bool is_last_pass) {
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
  EXPECT_EQ(write(buckets, first, 1, true), 1U) << "the pass continues while the first bucket is away";
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

// -- the plan -------------------------------------------------------------------------------

std::vector<std::pair<std::size_t, std::size_t>> planned(const std::vector<nn::parameter_range>& layers,
                                                         std::size_t first_bytes, std::size_t bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const auto& range : plan_buckets(layers, first_bytes, bytes)) pairs.emplace_back(range.first, range.count);
  return pairs;
}

// Layers of 10, 20, 30 and 40 parameters, so 40, 80, 120 and 160 bytes; the last one finishes first.
TEST(PlannedBuckets, AreClosedWhenTheyHaveReachedTheirSize) {
  using pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  const std::vector<nn::parameter_range> layers = {{0, 10}, {10, 20}, {30, 30}, {60, 40}};
  EXPECT_EQ(planned(layers, 1, 1), (pairs{{60, 40}, {30, 30}, {10, 20}, {0, 10}}));
  EXPECT_EQ(planned(layers, 1000, 1000), (pairs{{0, 100}}));
  EXPECT_EQ(planned(layers, 160, 1000), (pairs{{60, 40}, {0, 60}}));
  EXPECT_EQ(planned(layers, 161, 1), (pairs{{30, 70}, {10, 20}, {0, 10}}));
  EXPECT_EQ(planned(layers, 1, 120), (pairs{{60, 40}, {30, 30}, {0, 30}}));
  EXPECT_EQ(planned(layers, 1, 121), (pairs{{60, 40}, {10, 50}, {0, 10}}));
  EXPECT_EQ(planned(layers, 0, 0), (pairs{{60, 40}, {30, 30}, {10, 20}, {0, 10}}));
  EXPECT_TRUE(plan_buckets({}, 1, 1).empty());
}

TEST(PlannedBuckets, CoverEveryParameterOnceFromTheLastToTheFirst) {
  kernels::test::source_of_numbers random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<nn::parameter_range> layers;
    std::size_t total = 0;
    for (std::size_t i = 0, count = 1 + random.below(12); i < count; ++i) {
      layers.push_back({total, 1 + random.below(100)});
      total += layers.back().count;
    }
    const std::size_t first_bytes = random.below(500);
    const std::size_t bytes = random.below(1500);
    const auto buckets = plan_buckets(layers, first_bytes, bytes);
    std::size_t end = total;
    std::size_t layer = layers.size();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      ASSERT_EQ(buckets[i].first + buckets[i].count, end);
      end = buckets[i].first;
      while (layer > 0 && layers[layer - 1].first >= end) --layer;
      ASSERT_EQ(layers[layer].first, end) << "cuts through a layer";
      const std::size_t limit = i == 0 ? first_bytes : bytes;
      if (i + 1 < buckets.size()) {
        ASSERT_GE(buckets[i].count * sizeof(float), limit);
      }
      // The bucket was open until its last layer was added.
      if (buckets[i].count > layers[layer].count) {
        ASSERT_LT((buckets[i].count - layers[layer].count) * sizeof(float), limit);
      }
    }
    ASSERT_EQ(end, 0U);
  }
}

}  // namespace
}  // namespace troupe::actors::gradient_buckets_test
