// The sum in rank order alone: processes are objects, and the test carries the messages between them in an order drawn
// from a seed. Sums are compared bit for bit with a plain loop over the ranks.

#include "actors/collective/ordered_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "model/random.hpp"

namespace troupe::actors::ordered_sum_test {
namespace {

using state = ordered_sum::state;

struct rank_input {
  std::vector<float> numbers;
  std::uint32_t batches = 1;
};

/// Numbers of very different magnitudes, so that a different order of summing gives different bits.
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

/// The exchange of floats in a group that may gather.
share_exchange exchange_of_floats(std::uint32_t processes, std::uint64_t count) {
  return fastest_exchange(processes, count, sizeof(float), true);
}

/// All processes of a group, and the messages between them.
class processes {
 public:
  processes(std::vector<std::uint32_t> process_of_rank, std::uint32_t count) : sums_(count), means_(count) {
    for (std::uint32_t me = 0; me < count; ++me) layouts_.push_back({process_of_rank, count, me});
  }

  /// Returns the mean at each process, with messages in an order drawn from `random`. `root`: the process that gathers,
  /// if any.
  std::vector<std::vector<float>> reduce(const std::vector<rank_input>& inputs, model::random_sequence& random,
                                         std::optional<share_exchange> how = {}, std::uint32_t root = 0) {
    const std::uint64_t count = inputs.front().numbers.size();
    const sum_plan plan{how.value_or(exchange_of_floats(static_cast<std::uint32_t>(sums_.size()), count)), count,
                        sizeof(float), root};
    for (std::uint32_t p = 0; p < sums_.size(); ++p) sums_[p].begin(layouts_[p], plan);
    for (std::uint32_t rank = 0; rank < inputs.size(); ++rank) {
      const std::uint32_t home = layouts_[0].process_of_rank[rank];
      under_way_.push_back({home, home, rank, inputs[rank].batches, 0, inputs[rank].numbers, false});
    }
    means_.assign(sums_.size(), std::vector<float>(count));
    kept_.clear();
    while (!under_way_.empty()) {
      std::swap(under_way_.back(), under_way_[random.below(under_way_.size())]);
      kept_.push_back(std::make_unique<message>(std::move(under_way_.back())));
      under_way_.pop_back();
      deliver(*kept_.back(), count);
    }
    for (ordered_sum& sum : sums_) {
      EXPECT_EQ(sum.now(), state::reduced);
      sum.end();
    }
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
    std::vector<float>& mean = means_[one.to];
    const auto refused =
        one.is_sum ? sum.add_sum(one.from, {one.first, one.numbers.size()})
                   : sum.add_share({one.rank, one.batches, count, one.first, std::as_bytes(std::span(one.numbers))});
    ASSERT_FALSE(refused) << refused->why;
    if (one.is_sum) std::ranges::copy(one.numbers, mean.begin() + static_cast<std::ptrdiff_t>(one.first));
    if (!one.is_sum && one.from == one.to)
      send(one,
           [&sum](std::uint32_t to) { return sum.takes_shares(to) ? std::optional(sum.slice_of(to)) : std::nullopt; });
    if (sum.now() != state::complete) return;
    const sum_slice mine = sum.slice_of(one.to);
    sum.sum(sum_of_floats(1.0F / static_cast<float>(std::max<std::uint64_t>(sum.batches(), 1))),
            reinterpret_cast<std::byte*>(mean.data() + mine.first));
    if (sum.sends_sum(one.to))
      send({one.to, one.to, 0, 1, 0, mean, true}, [&mine](std::uint32_t) { return std::optional(mine); });
  }

  /// Sends the slices of `whole` chosen by `slice_for` from its receiver to all other processes; no message if none.
  template <class SliceFor>
  void send(const message& whole, SliceFor slice_for) {
    for (std::uint32_t to = 0; to < sums_.size(); ++to) {
      const std::optional<sum_slice> part = slice_for(to);
      if (to == whole.to || !part) continue;
      message sent{whole.to, to, whole.rank, whole.batches, part->first, {}, whole.is_sum};
      const auto begin = whole.numbers.begin() + static_cast<std::ptrdiff_t>(part->first);
      if (whole.batches > 0) sent.numbers.assign(begin, begin + static_cast<std::ptrdiff_t>(part->size));
      numbers_sent_ += sent.numbers.size();
      ++messages_;
      under_way_.push_back(std::move(sent));
    }
  }

  std::vector<rank_layout> layouts_;
  std::vector<ordered_sum> sums_;
  std::vector<message> under_way_;
  std::vector<std::unique_ptr<message>> kept_;  // shares must outlive the sum
  std::vector<std::vector<float>> means_;
  std::size_t numbers_sent_ = 0;
  std::size_t messages_ = 0;
};

/// Distributes the ranks over at most as many processes; each process has at least one rank.
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

TEST(OrderedSum, OneGroupTakesSumsOfAnySizeOneAfterTheOther) {
  model::random_sequence random(2);
  processes group({1, 0, 1, 2}, 3);
  for (const std::size_t count : {40'001, 2, 20'000, 9000, 40'003, 1}) {
    const auto inputs = random_inputs(4, count, random);
    for (const auto& mean : group.reduce(inputs, random)) EXPECT_EQ(bits_of(mean), bits_of(plain_mean(inputs)));
  }
}

TEST(OrderedSum, NoNumberOfManyIsSentTwiceToAProcessAndFewAreGatheredInTwoMessagesForEach) {
  model::random_sequence random(3);
  const auto reduce_with = [&random](processes& group, std::uint32_t ranks, std::size_t count, std::uint32_t root) {
    auto inputs = random_inputs(ranks, count, random);
    for (rank_input& input : inputs) input.batches = 1;
    for (const auto& mean : group.reduce(inputs, random, {}, root))
      EXPECT_EQ(bits_of(mean), bits_of(plain_mean(inputs)));
  };
  processes three({0, 1, 2}, 3);
  reduce_with(three, 3, 30'011, 0);
  // Each rank's slices except its own process's, and each slice of the mean twice.
  EXPECT_EQ(three.numbers_sent(), 3U * 30'011 - 30'011 + 2 * 30'011);
  processes eight({0, 1, 2, 3, 4, 5, 6, 7}, 8);
  reduce_with(eight, 8, 1000, 5);
  EXPECT_EQ(eight.messages(), 2U * 7);
  EXPECT_EQ(eight.numbers_sent(), 2U * 7 * 1000);
}

TEST(OrderedSum, EachProcessSumsItsPartForItself) {
  model::random_sequence random(4);
  processes group({0, 1, 2}, 3);
  const auto inputs = random_inputs(3, 3 * 1001, random);
  const auto expected = bits_of(plain_mean(inputs));
  const auto means = group.reduce(inputs, random, share_exchange::parts);
  for (std::size_t process = 0; process < 3; ++process)
    EXPECT_EQ(bits_of(std::span(means[process]).subspan(1001 * process, 1001)),
              std::vector(expected.begin() + 1001 * process, expected.begin() + 1001 * (process + 1)));
  EXPECT_EQ(group.messages(), 6U) << "no sums";
}

TEST(OrderedSum, SlicesAreAPartitionInWholeCacheLines) {
  for (std::uint32_t count_of_processes = 2; count_of_processes <= 9; ++count_of_processes) {
    for (const std::uint64_t count : {16'385, 16'400, 99'999, 1'000'000}) {
      const rank_layout layout{std::vector<std::uint32_t>(count_of_processes, 0), count_of_processes, 0};
      ordered_sum sum;
      sum.begin(layout, {share_exchange::slices, count});
      std::uint64_t end = 0;
      std::uint64_t largest = 0;
      for (std::uint32_t process = 0; process < count_of_processes; ++process) {
        const sum_slice part = sum.slice_of(process);
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

TEST(OrderedSum, FewNumbersGoWholeAndAmongManyProcessesThroughARoot) {
  struct example {
    std::uint32_t processes;
    std::uint64_t count;
    share_exchange of_floats, of_doubles;  // doubles are not gathered
  };
  using enum share_exchange;
  const example examples[] = {{1, 1'000'000'000, whole, whole},
                              {2, 8192, whole, whole},
                              {2, 8193, whole, slices},
                              {2, 16'384, whole, slices},
                              {2, 16'385, slices, slices},
                              {3, 4096, whole, whole},
                              {3, 8192, whole, slices},
                              {3, 8193, slices, slices},
                              {4, 1, gathered, whole},
                              {4, 16'384, gathered, slices},
                              {4, 16'385, slices, slices},
                              {100, 16'384, gathered, slices},
                              {100, ~std::uint64_t{0}, slices, slices}};
  for (const auto& [count_of_processes, count, of_floats, of_doubles] : examples) {
    EXPECT_EQ(exchange_of_floats(count_of_processes, count), of_floats) << count_of_processes << ", " << count;
    EXPECT_EQ(fastest_exchange(count_of_processes, count, sizeof(double), false), of_doubles)
        << count_of_processes << ", " << count;
  }
}

}  // namespace
}  // namespace troupe::actors::ordered_sum_test
