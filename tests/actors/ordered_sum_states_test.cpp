// What one process accepts and refuses of a sum in rank order, state by state.

#include <gtest/gtest.h>

#include <string>

#include "actors/collective/ordered_sum.hpp"

namespace troupe::actors::ordered_sum_states_test {
namespace {

using state = ordered_sum::state;
using cause = refusal::cause;

/// The sum at process 0, which has rank 0.
class OneProcess : public testing::Test {
 protected:
  OneProcess(std::vector<std::uint32_t> process_of_rank, std::uint32_t count) : layout_{process_of_rank, count, 0} {}

  void begin(std::uint64_t count, std::uint32_t root = 0) {
    sum_.begin(layout_, {fastest_exchange(layout_.processes, count, sizeof(float), true), count, sizeof(float), root});
  }
  std::optional<refusal> share(std::uint32_t rank, std::uint64_t first, std::uint64_t numbers, std::uint64_t count,
                               std::uint32_t batches = 1) {
    return sum_.add_share({rank, batches, count, first, std::as_bytes(std::span(numbers_).first(numbers))});
  }
  /// Sums, and returns the state after that.
  state sum() {
    const float scale = 1.0F / static_cast<float>(sum_.batches());
    sum_.sum(sum_of_floats(scale), reinterpret_cast<std::byte*>(mean_.data()));
    return sum_.now();
  }
  static void expect(const std::optional<refusal>& got, cause what, const std::string& text) {
    ASSERT_TRUE(got) << text;
    EXPECT_EQ(got->what, what) << got->why;
    EXPECT_EQ(got->why, text);
  }
  std::vector<bool> lacking() const {
    std::vector<bool> by_rank;
    for (std::uint32_t rank = 0; rank < layout_.ranks(); ++rank)
      by_rank.push_back(sum_.lacks_share(rank) || sum_.lacks_sum(rank));
    return by_rank;
  }

  static constexpr std::uint64_t large = 48'000;
  const rank_layout layout_;
  const std::vector<float> numbers_ = std::vector<float>(large, 1.5F);
  std::vector<float> mean_ = std::vector<float>(large);
  ordered_sum sum_;
};

/// Ranks 1 and 2 are in process 1, rank 3 in process 2.
class OfThreeProcesses : public OneProcess {
 protected:
  OfThreeProcesses() : OneProcess({0, 1, 1, 2}, 3) {}

  static constexpr std::uint64_t slice = large / 3;
};

TEST_F(OfThreeProcesses, ASecondShareOfARankIsRefusedAndChangesNothing) {
  begin(4);
  EXPECT_FALSE(share(0, 0, 4, 4) || share(2, 0, 4, 4));
  expect(share(0, 0, 4, 4), cause::not_due, "a share of rank 0 twice");
  expect(share(2, 0, 4, 4), cause::not_due, "a share of rank 2 twice");
  EXPECT_EQ(sum_.batches(), 2U);
  EXPECT_FALSE(share(1, 0, 4, 4));
  EXPECT_EQ(sum_.now(), state::collecting);
  EXPECT_FALSE(share(3, 0, 4, 4));
  EXPECT_EQ(sum_.now(), state::complete);
  expect(share(3, 0, 4, 4), cause::not_due, "a share of rank 3 twice");
  EXPECT_EQ(sum(), state::reduced);
  EXPECT_FALSE(sum_.sends_sum(0));
  EXPECT_EQ(mean_[3], 1.5F * 4 * 0.25F);
}

TEST_F(OfThreeProcesses, SizesThatDoNotFitAreRefusedWithBoth) {
  begin(4);
  EXPECT_FALSE(share(1, 0, 4, 4));
  expect(share(2, 0, 5, 5), cause::misfit, "rank 2 sent 20 bytes, rank 1 sent 16");
  expect(share(0, 0, 3, 3), cause::misfit, "rank 0 sent 12 bytes, rank 1 sent 16");
  expect(share(2, 0, 3, 4), cause::misfit, "rank 2 sent 3 numbers from 0 on of 4, expected 4 from 0 on");
  expect(share(2, 1, 4, 4), cause::misfit, "rank 2 sent 4 numbers from 1 on of 4, expected 4 from 0 on");
  expect(share(2, 0, 4, 4, 0), cause::misfit, "rank 2 sent 4 numbers from 0 on of 4, expected 0 from 0 on");
  EXPECT_FALSE(share(2, 0, 0, 4, 0));
  EXPECT_FALSE(sum_.has_share(0) || sum_.has_share(3));
}

TEST_F(OfThreeProcesses, AShareOfAnotherProcessHasThisOnesSlice) {
  begin(large);
  expect(share(1, 0, large, large), cause::misfit,
         "rank 1 sent 48000 numbers from 0 on of 48000, expected 16000 from 0 on");
  expect(share(1, slice, slice, large), cause::misfit,
         "rank 1 sent 16000 numbers from 16000 on of 48000, expected 16000 from 0 on");
  EXPECT_FALSE(share(1, 0, slice, large));
}

TEST_F(OfThreeProcesses, WhatAnotherProcessClaimsHasALimit) {
  begin(~std::uint64_t{0});
  EXPECT_TRUE(share(1, 0, 4, ~std::uint64_t{0}));
}

TEST_F(OfThreeProcesses, ASumThatItsSenderDoesNotOweIsRefused) {
  const auto expect_refused = [&](std::optional<std::uint32_t> from, std::uint64_t first, std::uint64_t size) {
    expect(sum_.add_sum(from, {first, size}), cause::misfit,
           "an unexpected sum of " + std::to_string(size) + " numbers from " + std::to_string(first) + " on");
  };
  begin(4);
  expect_refused(1, 0, 4);
  sum_ = {};
  begin(large);
  expect_refused(0, 0, slice);
  expect_refused(2, slice, slice);
  expect_refused(1, slice, slice - 1);
  expect_refused(3, slice, slice);
  EXPECT_FALSE(sum_.add_sum(1, {slice, slice}));
  expect_refused(1, slice, slice);
  EXPECT_FALSE(sum_.add_sum({}, {2 * slice, slice}));
  expect_refused({}, 2 * slice, slice);
  // All sums arrive before the shares.
  EXPECT_FALSE(share(0, 0, large, large) || share(1, 0, slice, large) || share(2, 0, slice, large));
  EXPECT_FALSE(share(3, 0, slice, large));
  EXPECT_EQ(sum(), state::reduced);
  EXPECT_TRUE(sum_.sends_sum(0));
}

TEST_F(OfThreeProcesses, LackTheSharesAndThenTheSumsOfOtherProcesses) {
  begin(large);
  EXPECT_FALSE(share(0, 0, large, large) || share(3, 0, slice, large));
  EXPECT_EQ(lacking(), (std::vector{false, true, true, false}));
  EXPECT_FALSE(share(1, 0, slice, large) || share(2, 0, slice, large));
  EXPECT_EQ(sum(), state::exchanging);
  EXPECT_EQ(lacking(), (std::vector{false, true, true, true}));
  EXPECT_FALSE(sum_.add_sum(1, {slice, slice}));
  EXPECT_EQ(lacking(), (std::vector{false, false, false, true}));
}

TEST_F(OfThreeProcesses, WhatIsAnnouncedHasNoNumbersOfOthersAndIsSummedElsewhere) {
  sum_.begin(layout_, {share_exchange::announced, large});
  EXPECT_EQ(sum_.slice_of(1), sum_slice());
  EXPECT_FALSE(share(0, 0, large, large));
  EXPECT_TRUE(share(1, 0, slice, large));
  EXPECT_FALSE(share(1, 0, 0, large, 2) || share(2, 0, 0, large, 0));
  EXPECT_TRUE(sum_.add_sum(1, {}));
  EXPECT_FALSE(share(3, 0, 0, large));
  EXPECT_EQ(sum_.batches(), 4U);
  sum_.summed_elsewhere();
  EXPECT_EQ(sum_.now(), state::reduced);
  sum_.end();
}

using OrderedSumDeathTest = OfThreeProcesses;

TEST_F(OrderedSumDeathTest, TransitionsThatAreNoneAbort) {
  EXPECT_DEATH(sum_.end(), "assertion failed");
  begin(4);
  EXPECT_DEATH(begin(4), "assertion failed");
  EXPECT_DEATH(sum(), "assertion failed");
  EXPECT_DEATH(sum_.summed_elsewhere(), "assertion failed");
  EXPECT_DEATH(sum_.end(), "assertion failed");
}

/// Ranks 3 and 4 are in process 3. The root is process 3 or process 0.
class Gathered : public OneProcess {
 protected:
  Gathered() : OneProcess({0, 1, 2, 3, 3}, 4) {}
};

TEST_F(Gathered, TheRootAddsAllSharesAndSendsItsSum) {
  begin(4, 0);
  EXPECT_EQ(sum_.root(), 0U);
  for (const std::uint32_t rank : {0, 1, 2, 4}) EXPECT_FALSE(share(rank, 0, 4, 4));
  EXPECT_EQ(lacking(), (std::vector{false, false, false, true, false}));
  EXPECT_FALSE(share(3, 0, 4, 4));
  EXPECT_EQ(sum(), state::reduced);
  EXPECT_TRUE(sum_.sends_sum(0));
  EXPECT_EQ(mean_[2], 1.5F);
}

TEST_F(Gathered, TheOthersSendTheirSharesAndTakeTheSum) {
  begin(4, 3);
  EXPECT_EQ(sum_.root(), 3U);
  EXPECT_EQ(lacking(), (std::vector{true, false, false, false, false}));
  EXPECT_FALSE(share(0, 0, 4, 4));
  EXPECT_EQ(sum_.slice_of(3), (sum_slice{0, 4}));
  EXPECT_EQ(sum(), state::exchanging);
  EXPECT_FALSE(sum_.sends_sum(0));
  EXPECT_EQ(mean_[0], 0.0F) << "it sums nothing";
  EXPECT_EQ(lacking(), (std::vector{false, false, false, true, true}));
  EXPECT_FALSE(sum_.add_sum(3, {0, 4}));
  EXPECT_EQ(sum_.now(), state::reduced);
}

TEST_F(Gathered, WhatAnotherProcessSumsOrDoesNotSumIsRefused) {
  begin(4, 3);
  expect(share(1, 0, 4, 4), cause::not_due, "a share of rank 1, which process 3 sums");
  EXPECT_TRUE(sum_.add_sum(1, {0, 4}));
  EXPECT_TRUE(sum_.add_sum(3, {0, 3}));
  EXPECT_TRUE(sum_.add_sum(3, {1, 3}));
  EXPECT_FALSE(sum_.add_sum(3, {0, 4})) << "it counts before the share is here";
  EXPECT_TRUE(sum_.add_sum(3, {0, 4})) << "twice";
  EXPECT_FALSE(share(0, 0, 4, 4));
  EXPECT_EQ(sum(), state::reduced);
}

}  // namespace
}  // namespace troupe::actors::ordered_sum_states_test
