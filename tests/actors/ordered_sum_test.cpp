// The allreduce's algorithm alone: processes are objects, messages are what the test carries from one to the other, in
// an order drawn from a seed. Means are compared bit for bit with a plain loop over the ranks.

#include "actors/ordered_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "model/random.hpp"

namespace troupe::actors::ordered_sum_test {
namespace {

using state = ordered_sum::state;

struct rank_input {
  std::vector<float> numbers;
  std::uint32_t batches = 1;
};

/// Numbers of very different sizes, so that another order of summing gives other bits.
std::vector<rank_input> random_inputs(std::size_t ranks, std::size_t count, model::random_sequence& random) {
  std::vector<rank_input> inputs(ranks);
  for (rank_input& input : inputs) {
    input.batches = static_cast<std::uint32_t>(random.below(4));
    for (std::size_t i = 0; i < count; ++i)
      input.numbers.push_back(
          std::ldexp(static_cast<float>(random.below(2'000'001)) - 1e6F, static_cast<int>(random.below(60)) - 30));
  }
  return inputs;
}

std::vector<float> plain_mean(const std::vector<rank_input>& inputs) {
  std::vector<float> mean(inputs.front().numbers.size());
  std::uint32_t batches = 0;
  for (const rank_input& input : inputs) {
    if (input.batches == 0) continue;
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] = batches == 0 ? input.numbers[i] : mean[i] + input.numbers[i];
    batches += input.batches;
  }
  if (batches > 0)
    for (float& number : mean) number *= 1.0F / static_cast<float>(batches);
  return mean;
}

std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

/// All processes of a group, and the messages between them.
class processes {
 public:
  processes(std::vector<std::uint32_t> process_of_rank, std::uint32_t count) : sums_(count), means_(count) {
    for (std::uint32_t me = 0; me < count; ++me) layouts_.push_back({process_of_rank, count, me});
  }

  /// The mean that each process has, after messages in an order drawn from `random`.
  std::vector<std::vector<float>> reduce(const std::vector<rank_input>& inputs, model::random_sequence& random) {
    const std::uint64_t count = inputs.front().numbers.size();
    const bucket_exchange how = fastest_exchange(static_cast<std::uint32_t>(sums_.size()), count);
    for (std::uint32_t p = 0; p < sums_.size(); ++p) sums_[p].begin(layouts_[p], 0, count, how);
    for (std::uint32_t rank = 0; rank < inputs.size(); ++rank) {
      const std::uint32_t home = layouts_[0].process_of_rank[rank];
      under_way_.push_back({home, home, rank, inputs[rank].batches, 0, inputs[rank].numbers, false});
    }
    means_.assign(sums_.size(), {});
    kept_.clear();
    while (!under_way_.empty()) {
      std::swap(under_way_.back(), under_way_[random.below(under_way_.size())]);
      kept_.push_back(std::make_unique<message>(std::move(under_way_.back())));
      under_way_.pop_back();
      deliver(*kept_.back(), count);
    }
    for (const ordered_sum& sum : sums_) EXPECT_EQ(sum.now(), state::idle);
    return means_;
  }

  std::size_t numbers_sent() const { return numbers_sent_; }
  std::size_t messages() const { return messages_; }

 private:
  struct message {
    std::uint32_t from, to, rank, batches;
    std::uint64_t first;
    std::vector<float> numbers;
    bool is_sum;
  };

  void deliver(const message& one, std::uint64_t count) {
    ordered_sum& sum = sums_[one.to];
    const auto next = one.is_sum ? sum.add_sum(one.from, one.first, one.numbers)
                                 : sum.add_share({one.rank, one.batches, false, count, one.first, one.numbers});
    if (one.from != one.to) ++messages_;
    ASSERT_TRUE(next) << next.error().why;
    bucket_actions todo = *next;
    if (todo.send_slices)
      send(
          one.to, [&](std::uint32_t p) { return sum.takes_shares(p) ? std::optional(sum.slice_of(p)) : std::nullopt; },
          one);
    if (todo.sum) todo = sum.sum();
    if (todo.send_sum) {
      const bucket_slice mine = sum.slice_of(one.to);
      message part{one.to, 0, 0, 1, 0, {sum.mean().get(), sum.mean().get() + count}, true};
      send(
          one.to, [&](std::uint32_t) { return std::optional(mine); }, part);
    }
    if (!todo.finish) return;
    EXPECT_TRUE(means_[one.to].empty()) << "finished twice";
    means_[one.to].assign(sum.mean().get(), sum.mean().get() + count);
    sum.end();
  }

  /// To all other processes, the slices of `whole` that `slice_for` says; nothing: no message.
  template <class SliceFor>
  void send(std::uint32_t from, SliceFor slice_for, const message& whole) {
    for (std::uint32_t to = 0; to < sums_.size(); ++to) {
      const std::optional<bucket_slice> wanted = slice_for(to);
      if (to == from || !wanted) continue;
      const bucket_slice part = *wanted;
      message sent{from, to, whole.rank, whole.batches, part.first, {}, whole.is_sum};
      const auto begin = whole.numbers.begin() + static_cast<std::ptrdiff_t>(part.first);
      if (whole.batches > 0) sent.numbers.assign(begin, begin + static_cast<std::ptrdiff_t>(part.size));
      numbers_sent_ += sent.numbers.size();
      under_way_.push_back(std::move(sent));
    }
  }

  std::vector<rank_layout> layouts_;
  std::vector<ordered_sum> sums_;
  std::vector<message> under_way_;
  std::vector<std::unique_ptr<message>> kept_;  // shares stay until the bucket is reduced
  std::vector<std::vector<float>> means_;
  std::size_t numbers_sent_ = 0;
  std::size_t messages_ = 0;
};

/// A process for each rank, or fewer: each has one rank at least.
std::vector<std::uint32_t> random_layout(std::uint32_t ranks, std::uint32_t processes, model::random_sequence& random) {
  std::vector<std::uint32_t> layout(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    layout[rank] = rank < processes ? rank : static_cast<std::uint32_t>(random.below(processes));
  for (std::uint32_t rank = ranks; rank > 1; --rank) std::swap(layout[rank - 1], layout[random.below(rank)]);
  return layout;
}

TEST(OrderedSum, EveryLayoutSizeAndOrderOfMessagesGivesTheBitsOfThePlainSum) {
  model::random_sequence random(1);
  for (std::uint32_t ranks = 1; ranks <= 8; ++ranks) {
    for (const std::size_t count : {1, 3, 17, 1021, 8193, 16'384, 16'385, 33'333}) {
      const auto count_of_processes = static_cast<std::uint32_t>(1 + random.below(ranks));
      processes group(random_layout(ranks, count_of_processes, random), count_of_processes);
      for (int again = 0; again < 3; ++again) {
        const auto inputs = random_inputs(ranks, count, random);
        const auto expected = bits_of(plain_mean(inputs));
        for (const auto& mean : group.reduce(inputs, random))
          ASSERT_EQ(bits_of(mean), expected) << ranks << " ranks in " << count_of_processes << ", " << count;
      }
    }
  }
}

TEST(OrderedSum, OneGroupTakesBucketsOfAnySizeOneAfterTheOther) {
  model::random_sequence random(2);
  processes group({1, 0, 1, 2}, 3);
  for (const std::size_t count : {40'001, 2, 20'000, 9000, 40'003, 1}) {
    const auto inputs = random_inputs(4, count, random);
    for (const auto& mean : group.reduce(inputs, random)) EXPECT_EQ(bits_of(mean), bits_of(plain_mean(inputs)));
  }
}

TEST(OrderedSum, NoNumberOfALargeBucketIsSentTwiceToAProcess) {
  constexpr std::size_t count = 30'011;
  model::random_sequence random(3);
  processes group({0, 1, 2}, 3);
  auto inputs = random_inputs(3, count, random);
  for (rank_input& input : inputs) input.batches = 1;
  group.reduce(inputs, random);
  // Each rank's slices but its own process's, and each slice of the mean twice.
  EXPECT_EQ(group.numbers_sent(), 3 * count - count + 2 * count);
}

TEST(OrderedSum, SlicesAreAPartitionInWholeCacheLines) {
  for (std::uint32_t count_of_processes = 2; count_of_processes <= 9; ++count_of_processes) {
    for (const std::uint64_t count : {16'385, 16'400, 99'999, 1'000'000}) {
      const rank_layout layout{std::vector<std::uint32_t>(count_of_processes, 0), count_of_processes, 0};
      ordered_sum sum;
      sum.begin(layout, 0, count, bucket_exchange::slices);
      std::uint64_t end = 0;
      std::uint64_t largest = 0;
      for (std::uint32_t process = 0; process < count_of_processes; ++process) {
        const bucket_slice part = sum.slice_of(process);
        EXPECT_EQ(part.first, end);
        EXPECT_EQ(part.first % 16, 0U);
        end += part.size;
        largest = std::max(largest, part.size);
      }
      EXPECT_EQ(end, count);
      EXPECT_LE(largest, count / count_of_processes + 32);
    }
  }
}

TEST(OrderedSum, ManyProcessesGatherASmallBucketInTwoMessagesForEach) {
  constexpr std::size_t count = 1000;
  model::random_sequence random(4);
  processes group({0, 1, 2, 3, 4, 5, 6, 7}, 8);
  auto inputs = random_inputs(8, count, random);
  for (rank_input& input : inputs) input.batches = 1;
  for (const auto& mean : group.reduce(inputs, random)) EXPECT_EQ(bits_of(mean), bits_of(plain_mean(inputs)));
  EXPECT_EQ(group.messages(), 2U * 7);
  EXPECT_EQ(group.numbers_sent(), 2U * 7 * count);
}

TEST(OrderedSum, FewProcessesTakeABucketWholeUpTo64KibForAllOthers) {
  EXPECT_EQ(fastest_exchange(1, 1'000'000'000), bucket_exchange::whole);
  EXPECT_EQ(fastest_exchange(2, 16'384), bucket_exchange::whole);
  EXPECT_EQ(fastest_exchange(2, 16'385), bucket_exchange::slices);
  EXPECT_EQ(fastest_exchange(3, 8192), bucket_exchange::whole);
  EXPECT_EQ(fastest_exchange(3, 8193), bucket_exchange::slices);
}

/// The sum of process 0, which has rank 0; ranks 1 and 2 are in process 1, rank 3 in process 2.
class Refusals : public testing::Test {
 protected:
  static constexpr std::uint64_t large = 48'000;
  static constexpr std::uint64_t slice = 16'000;

  void begin(std::uint64_t count) { sum_.begin(layout_, 7, count, fastest_exchange(layout_.processes, count)); }

  ordered_sum::outcome share(std::uint32_t rank, std::uint64_t first, std::uint64_t numbers, std::uint64_t count,
                             std::uint32_t batches = 1) {
    return sum_.add_share({rank, batches, false, count, first, {numbers_.data(), numbers}});
  }

  static void expect(const ordered_sum::outcome& got, protocol::errc code, const std::string& words) {
    ASSERT_FALSE(got) << words;
    EXPECT_EQ(got.error().code, code) << got.error().why;
    EXPECT_NE(got.error().why.find(words), std::string::npos) << got.error().why;
  }

  const rank_layout layout_{{0, 1, 1, 2}, 3, 0};
  const std::vector<float> numbers_ = std::vector<float>(large, 1.5F);
  ordered_sum sum_;
};

TEST_F(Refusals, ASecondShareOfARankIsRefusedAndChangesNothing) {
  begin(4);
  const bucket_actions forward{.send_slices = true};
  EXPECT_EQ(share(0, 0, 4, 4), forward);
  EXPECT_EQ(share(2, 0, 4, 4), bucket_actions());
  expect(share(0, 0, 4, 4), protocol::errc::wrong_context, "bucket 7 of rank 0 twice");
  expect(share(2, 0, 4, 4), protocol::errc::wrong_context, "bucket 7 of rank 2 twice");
  EXPECT_EQ(sum_.batches(), 2U);
  EXPECT_EQ(share(1, 0, 4, 4), bucket_actions());
  EXPECT_EQ(share(3, 0, 4, 4), bucket_actions{.sum = true});
  expect(share(3, 0, 4, 4), protocol::errc::wrong_context, "bucket 7 of rank 3 twice");
  EXPECT_EQ(sum_.sum(), bucket_actions{.finish = true});
  EXPECT_EQ(sum_.mean()[3], 1.5F * 4 * 0.25F);
}

TEST_F(Refusals, SizesThatDoNotFitAreRefusedWithBoth) {
  begin(4);
  EXPECT_TRUE(share(1, 0, 4, 4));
  expect(share(2, 0, 5, 5), protocol::errc::shape_mismatch, "bucket 7: rank 2 sent 20 bytes, rank 1 sent 16");
  expect(share(0, 0, 3, 3), protocol::errc::shape_mismatch, "bucket 7: rank 0 sent 12 bytes, rank 1 sent 16");
  expect(share(2, 0, 3, 4), protocol::errc::shape_mismatch, "3 numbers from 0 on of 4, expected 4 from 0 on");
  expect(share(2, 1, 4, 4), protocol::errc::shape_mismatch, "4 numbers from 1 on of 4, expected 4 from 0 on");
  expect(share(2, 0, 4, 4, 0), protocol::errc::shape_mismatch, "expected 0 from 0 on");
  EXPECT_TRUE(share(2, 0, 0, 4, 0));
  EXPECT_FALSE(sum_.has_share(0) || sum_.has_share(3));
}

TEST_F(Refusals, AShareOfAnotherProcessHasThisOnesSlice) {
  begin(large);
  expect(share(1, 0, large, large), protocol::errc::shape_mismatch, "expected 16000 from 0 on");
  expect(share(1, slice, slice, large), protocol::errc::shape_mismatch, "expected 16000 from 0 on");
  EXPECT_TRUE(share(1, 0, slice, large));
}

TEST_F(Refusals, WhatAnotherProcessClaimsHasALimit) {
  begin(~std::uint64_t{0});
  expect(share(1, 0, 4, ~std::uint64_t{0}), protocol::errc::shape_mismatch, "bucket 7 of rank 1");
}

TEST_F(Refusals, ASumThatItsSenderDoesNotOweIsRefused) {
  const auto part = [&](std::optional<std::uint32_t> from, std::uint64_t first, std::uint64_t size) {
    return sum_.add_sum(from, first, {numbers_.data(), size});
  };
  const std::string words = "that no other process owes";
  begin(large);
  expect(part(0, 0, slice), protocol::errc::shape_mismatch, words);
  expect(part(2, slice, slice), protocol::errc::shape_mismatch, words);
  expect(part(1, slice, slice - 1), protocol::errc::shape_mismatch, words);
  expect(part(3, slice, slice), protocol::errc::shape_mismatch, words);
  EXPECT_EQ(part(1, slice, slice), bucket_actions());
  expect(part(1, slice, slice), protocol::errc::shape_mismatch, words);
  EXPECT_EQ(part({}, 2 * slice, slice), bucket_actions());
  expect(part({}, 2 * slice, slice), protocol::errc::shape_mismatch, words);
  // All sums are here before the shares are.
  EXPECT_TRUE(share(0, 0, large, large));
  EXPECT_TRUE(share(1, 0, slice, large) && share(2, 0, slice, large));
  EXPECT_EQ(share(3, 0, slice, large), bucket_actions{.sum = true});
  const bucket_actions last{.send_sum = true, .finish = true};
  EXPECT_EQ(sum_.sum(), last);
}

TEST_F(Refusals, ASmallBucketHasNoSums) {
  begin(4);
  expect(sum_.add_sum(1, 0, {numbers_.data(), 4}), protocol::errc::shape_mismatch, "that no other process owes");
}

TEST_F(Refusals, RanksWhoseProcessOwesASumAreWaitedFor) {
  const auto waits = [&] {
    std::vector<bool> by_rank;
    for (std::uint32_t rank = 0; rank < 4; ++rank) by_rank.push_back(sum_.waits_for(rank));
    return by_rank;
  };
  begin(large);
  EXPECT_TRUE(share(0, 0, large, large) && share(3, 0, slice, large));
  EXPECT_EQ(waits(), (std::vector{false, true, true, false}));
  EXPECT_TRUE(share(1, 0, slice, large) && share(2, 0, slice, large));
  EXPECT_EQ(sum_.sum(), bucket_actions{.send_sum = true});
  EXPECT_EQ(waits(), (std::vector{false, true, true, true}));
  EXPECT_TRUE(sum_.add_sum(1, slice, {numbers_.data(), slice}));
  EXPECT_EQ(waits(), (std::vector{false, false, false, true}));
}

TEST_F(Refusals, AnAnnouncedBucketHasNoNumbersOfOthersAndIsSummedElsewhere) {
  sum_.begin(layout_, 7, large, bucket_exchange::announced);
  EXPECT_EQ(sum_.slice_of(1), bucket_slice());
  EXPECT_TRUE(share(0, 0, large, large));
  expect(share(1, 0, slice, large), protocol::errc::shape_mismatch, "expected 0 from 0 on");
  EXPECT_TRUE(share(1, 0, 0, large, 2) && share(2, 0, 0, large, 0));
  expect(sum_.add_sum(1, 0, {}), protocol::errc::shape_mismatch, "that no other process owes");
  EXPECT_EQ(share(3, 0, 0, large), bucket_actions{.sum = true});
  EXPECT_EQ(sum_.batches(), 4U);
  sum_.summed_elsewhere();
  EXPECT_EQ(sum_.now(), state::reduced);
  sum_.end();
}

TEST_F(Refusals, OneWishToStopIsEveryones) {
  for (std::uint32_t who = 0; who < 4; ++who) {
    begin(1);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(sum_.stop(), rank > who);
      EXPECT_TRUE(sum_.add_share({rank, 1, rank == who, 1, 0, {numbers_.data(), 1}}));
    }
    sum_.sum();
    EXPECT_TRUE(sum_.stop());
    EXPECT_FALSE(sum_.save());
    sum_.end();
  }
}

TEST_F(Refusals, OneWishForACheckpointIsEveryones) {
  for (std::uint32_t who = 0; who < 4; ++who) {
    begin(1);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(sum_.save(), rank > who);
      EXPECT_TRUE(sum_.add_share({rank, 1, false, 1, 0, {numbers_.data(), 1}, rank == who}));
    }
    sum_.sum();
    EXPECT_TRUE(sum_.save());
    EXPECT_FALSE(sum_.stop());
    sum_.end();
  }
}

using OrderedSumDeathTest = Refusals;

TEST_F(OrderedSumDeathTest, TransitionsThatAreNoneAbort) {
  EXPECT_DEATH(sum_.end(), "assertion failed");
  begin(4);
  EXPECT_DEATH(begin(4), "assertion failed");
  EXPECT_DEATH(sum_.sum(), "assertion failed");
  EXPECT_DEATH(sum_.summed_elsewhere(), "assertion failed");
  EXPECT_DEATH(sum_.end(), "assertion failed");
}

}  // namespace
}  // namespace troupe::actors::ordered_sum_test
