// Buckets that one of many processes sums for all.

#include <gtest/gtest.h>

#include "actors/ordered_sum.hpp"

namespace troupe::actors::gathered_bucket_test {
namespace {

/// Process 0, with rank 0, of four; bucket 7 is summed by process 3, bucket 8 by process 0.
class GatheredBucket : public testing::Test {
 protected:
  void begin(std::uint32_t bucket) { sum_.begin(layout_, bucket, 4, fastest_exchange(layout_.processes, 4)); }
  ordered_sum::outcome share(std::uint32_t rank, bool stop = false) {
    return sum_.add_share({rank, 1, stop, 4, 0, numbers_});
  }
  std::vector<bool> waits() const {
    std::vector<bool> by_rank;
    for (std::uint32_t rank = 0; rank < layout_.ranks(); ++rank) by_rank.push_back(sum_.waits_for(rank));
    return by_rank;
  }

  const rank_layout layout_{{0, 1, 2, 3, 3}, 4, 0};
  const std::vector<float> numbers_ = {1, 2, 3, 4};
  ordered_sum sum_;
};

TEST_F(GatheredBucket, IsOfAtMost64KibAndOfFourProcessesOrMore) {
  EXPECT_EQ(fastest_exchange(4, 1), bucket_exchange::gathered);
  EXPECT_EQ(fastest_exchange(4, 16'384), bucket_exchange::gathered);
  EXPECT_EQ(fastest_exchange(4, 16'385), bucket_exchange::slices);
  EXPECT_EQ(fastest_exchange(100, 16'384), bucket_exchange::gathered);
  EXPECT_EQ(fastest_exchange(100, ~std::uint64_t{0}), bucket_exchange::slices);
}

TEST_F(GatheredBucket, TheRootAddsAllSharesAndSendsItsSum) {
  begin(8);
  EXPECT_EQ(sum_.root(), 0U);
  EXPECT_EQ(share(0), bucket_actions());
  EXPECT_EQ(share(1), bucket_actions());
  EXPECT_EQ(share(2), bucket_actions());
  EXPECT_EQ(share(4), bucket_actions());
  EXPECT_EQ(waits(), (std::vector{false, false, false, true, false}));
  EXPECT_EQ(share(3), bucket_actions{.sum = true});
  const bucket_actions last{.send_sum = true, .finish = true};
  EXPECT_EQ(sum_.sum(), last);
  EXPECT_EQ(sum_.mean()[2], 3.0F);
  EXPECT_FALSE(sum_.stop());
}

TEST_F(GatheredBucket, TheOthersSendTheirSharesAndTakeTheSum) {
  begin(7);
  EXPECT_EQ(sum_.root(), 3U);
  EXPECT_EQ(waits(), (std::vector{true, false, false, false, false}));
  const bucket_actions next{.send_slices = true, .sum = true};
  EXPECT_EQ(share(0), next);
  EXPECT_EQ(sum_.slice_of(3), (bucket_slice{0, 4}));
  EXPECT_EQ(sum_.sum(), bucket_actions());
  EXPECT_EQ(waits(), (std::vector{false, false, false, true, true}));
  EXPECT_EQ(sum_.add_sum(3, 0, numbers_, true), bucket_actions{.finish = true});
  EXPECT_EQ(sum_.mean()[3], 4.0F);
  EXPECT_TRUE(sum_.stop());
  sum_.end();
  begin(8);
  EXPECT_FALSE(sum_.stop()) << "of the bucket before";
}

TEST_F(GatheredBucket, WhatAnotherProcessSumsOrDoesNotSumIsRefused) {
  begin(7);
  const auto refused = share(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().why, "bucket 7 of rank 1, which process 3 sums");
  EXPECT_FALSE(sum_.add_sum(1, 0, numbers_));
  EXPECT_FALSE(sum_.add_sum(3, 0, {numbers_.data(), 3}));
  EXPECT_FALSE(sum_.add_sum(3, 1, {numbers_.data(), 3}));
  EXPECT_TRUE(sum_.add_sum(3, 0, numbers_)) << "kept until the share is here";
  EXPECT_FALSE(sum_.add_sum(3, 0, numbers_)) << "twice";
  EXPECT_TRUE(share(0));
  EXPECT_EQ(sum_.sum(), bucket_actions{.finish = true});
}

}  // namespace
}  // namespace troupe::actors::gathered_bucket_test
