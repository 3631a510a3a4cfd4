// Goal: a gradient finds the bags of its own lookup and no others, once, and the number of lookups kept is bounded.
// Method: lookups and gradients made from blobs that share memory, or hold equal numbers in separate memory.

#include "actors/server/bag_cache.hpp"

#include <gtest/gtest.h>

namespace troupe::actors::bag_cache_test {
namespace {

using numbers = std::vector<std::int64_t>;

msg::bag_lookup lookup_of(numbers indices, numbers offsets) {
  return {1, msg::blob::own(std::move(indices)), msg::blob::own(std::move(offsets)), {}};
}

msg::bag_gradient gradient_of(const msg::bag_lookup& asked) {
  return {asked.module, asked.indices, asked.offsets, asked.weights, {}};
}

numbers taken(bag_cache& from, const msg::bag_lookup& asked) {
  const auto bags = from.take(gradient_of(asked));
  return bags ? numbers(bags->indices.begin(), bags->indices.end()) : numbers();
}

TEST(BagCache, AGradientTakesTheBagsOfItsLookupOnce) {
  bag_cache kept(3);
  const msg::bag_lookup first = lookup_of({5, 6}, {0, 1});
  const msg::bag_lookup second = lookup_of({7, 8, 9}, {0});
  EXPECT_EQ(kept.put(kernels::host_stream(), first).indices.size(), 2U);
  EXPECT_EQ(kept.put(kernels::host_stream(), second).offsets.size(), 1U);
  EXPECT_EQ(taken(kept, second), (numbers{7, 8, 9}));
  EXPECT_EQ(taken(kept, first), (numbers{5, 6}));
  EXPECT_EQ(taken(kept, first), numbers());
}

TEST(BagCache, WhatIsTakenStaysUntilItIsFreed) {
  bag_cache kept(1);
  const msg::bag_lookup first = lookup_of({5, 6}, {0, 1});
  kept.put(kernels::host_stream(), first);
  const auto bags = kept.take(gradient_of(first));
  for (const std::int64_t next : {7, 8}) kept.put(kernels::host_stream(), lookup_of({next, next}, {0, 1}));
  ASSERT_TRUE(bags);
  EXPECT_EQ(numbers(bags->indices.begin(), bags->indices.end()), (numbers{5, 6}));
  kept.free_taken();
  EXPECT_FALSE(kept.has(first));
}

TEST(BagCache, TheSameNumbersElsewhereAreOtherBags) {
  bag_cache kept(3);
  const msg::bag_lookup asked = lookup_of({5, 6}, {0, 1});
  kept.put(kernels::host_stream(), asked);
  EXPECT_EQ(taken(kept, lookup_of({5, 6}, {0, 1})), numbers());
  msg::bag_lookup other_bags = asked;
  other_bags.offsets = msg::blob::own(numbers{0, 2});
  EXPECT_EQ(taken(kept, other_bags), numbers());
  msg::bag_lookup shorter = asked;
  shorter.indices = asked.indices.part(0, sizeof(std::int64_t));
  EXPECT_EQ(taken(kept, shorter), numbers());
  EXPECT_EQ(taken(kept, asked), (numbers{5, 6}));
}

TEST(BagCache, WhatWasLookedUpIsNotKeptAlive) {
  bag_cache kept(3);
  const auto indices = std::make_shared<const numbers>(numbers{5, 6});
  kept.put(kernels::host_stream(), {1, msg::blob::view(indices, *indices), {}, {}});
  EXPECT_EQ(indices.use_count(), 1);
  EXPECT_EQ(taken(kept, {1, msg::blob::view(indices, *indices), {}, {}}), (numbers{5, 6}));
}

TEST(BagCache, WhatIsGoneMakesRoom) {
  bag_cache kept(2);
  const msg::bag_lookup first = lookup_of({1}, {0});
  kept.put(kernels::host_stream(), lookup_of({2}, {0}));  // freed at once
  kept.put(kernels::host_stream(), first);
  kept.put(kernels::host_stream(), lookup_of({3}, {0}));
  EXPECT_EQ(taken(kept, first), numbers{1});
}

TEST(BagCache, BagsThatAreHereAreNotTakenAnew) {
  bag_cache kept(2);
  const std::vector<msg::bag_lookup> asked = {lookup_of({1}, {0}), lookup_of({2}, {0})};
  for (int again = 0; again < 3; ++again)
    for (const msg::bag_lookup& one : asked) EXPECT_EQ(kept.put(kernels::host_stream(), one).indices.size(), 1U);
  EXPECT_TRUE(kept.has(asked[0]));
  EXPECT_EQ(taken(kept, asked[0]), numbers{1});
  EXPECT_FALSE(kept.has(asked[0]));
  EXPECT_TRUE(kept.has(gradient_of(asked[1])));
}

TEST(BagCache, TheOldestGoesWhenThereAreTooMany) {
  bag_cache kept(2);
  const std::vector<msg::bag_lookup> asked = {lookup_of({1}, {0}), lookup_of({2}, {0}), lookup_of({3}, {0})};
  for (const msg::bag_lookup& one : asked) kept.put(kernels::host_stream(), one);
  EXPECT_EQ(taken(kept, asked[0]), numbers());
  EXPECT_EQ(taken(kept, asked[1]), numbers{2});
  kept.put(kernels::host_stream(), asked[0]);  // in the slot that has become free
  EXPECT_EQ(taken(kept, asked[2]), numbers{3});
  EXPECT_EQ(taken(kept, asked[0]), numbers{1});
}

}  // namespace
}  // namespace troupe::actors::bag_cache_test
