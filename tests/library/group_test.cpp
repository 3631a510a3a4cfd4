// Collectives of trainers in one process, compared with closed forms and sums in rank order.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::group_test {
namespace {

using test::run;

/// Numbers whose sum depends on the order: of all magnitudes and signs, different for each rank.
template <class T>
tensor numbers_of(std::uint32_t rank, std::size_t count) {
  tensor made(shape(count), dtype_of<T>());
  for (std::size_t i = 0; i < count; ++i)
    made.as<T>()[i] = static_cast<T>(std::sin(static_cast<double>(i * 7 + rank * 13)) * std::pow(10.0, (i + rank) % 8));
  return made;
}

/// ((r0 + r1) + r2) + ...; for means, times 1 / ranks.
template <class T>
std::vector<T> expected_of(reduce_op how, std::uint32_t ranks, std::size_t count) {
  const tensor first = numbers_of<T>(0, count);
  std::vector<T> all(first.as<T>().begin(), first.as<T>().end());
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const tensor numbers = numbers_of<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      const T x = numbers.as<T>()[i];
      all[i] = how == reduce_op::min ? std::min(all[i], x) : how == reduce_op::max ? std::max(all[i], x) : all[i] + x;
    }
  }
  if (how == reduce_op::mean)
    for (T& one : all) one *= T(1) / static_cast<T>(ranks);
  return all;
}

template <class T>
bool same_bits(const tensor& x, const std::vector<T>& expected) {
  return std::ranges::equal(std::as_bytes(x.as<T>()), std::as_bytes(std::span(expected)));
}

constexpr std::uint32_t ranks_max = 5;
/// None, one, some that no number of ranks divides, and so many that they travel in slices.
const std::vector<std::size_t> counts = {0, 1, 2, 61, 5'000, 20'003};

template <class T>
task<> reduce_all(trainer me, std::vector<int>* good) {
  const group all = me.group();
  for (const std::size_t count : counts)
    for (const reduce_op how : {reduce_op::sum, reduce_op::mean, reduce_op::min, reduce_op::max}) {
      if (how == reduce_op::mean && std::is_integral_v<T>) continue;
      const tensor mine = numbers_of<T>(me.rank(), count);
      tensor result = co_await all.all_reduce(mine, how);
      if (same_bits(result, expected_of<T>(how, me.trainers(), count))) ++(*good)[me.rank()];
      // Overwrites the result, which no other trainer shares.
      for (T& one : result.as<T>()) one = static_cast<T>(me.rank());
    }
}

template <class T>
void expect_all_reduced(int per_rank) {
  for (std::uint32_t ranks = 1; ranks <= ranks_max; ++ranks) {
    std::vector<int> good(ranks);
    run(ranks, reduce_all<T>, &good);
    EXPECT_EQ(good, std::vector<int>(ranks, per_rank)) << ranks << " ranks";
  }
}

TEST(Group, ReducesInRankOrder) {
  expect_all_reduced<float>(24);
  expect_all_reduced<double>(24);
  expect_all_reduced<std::int64_t>(18);
}

task<> scatter_sums(trainer me, std::vector<int>* good) {
  for (const std::size_t rows : {0, 1, 3, 1'001}) {
    const std::size_t count = rows * me.trainers() * 2;
    const tensor flat = numbers_of<float>(me.rank(), count);
    const tensor mine({rows * me.trainers(), 2}, dtype::f32, flat.owner());
    const tensor part = co_await me.group().reduce_scatter(mine, reduce_op::mean);
    const auto whole = expected_of<float>(reduce_op::mean, me.trainers(), count);
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(me.rank() * rows * 2);
    if (part.shape() == shape(rows, 2) && same_bits(part, std::vector<float>(first, first + rows * 2)))
      ++(*good)[me.rank()];
  }
}

TEST(Group, ReducesToThePartOfEachRank) {
  for (std::uint32_t ranks = 1; ranks <= ranks_max; ++ranks) {
    std::vector<int> good(ranks);
    run(ranks, scatter_sums, &good);
    EXPECT_EQ(good, std::vector<int>(ranks, 4)) << ranks << " ranks";
  }
}

/// A tensor [2, 3] with 10 * rank, 10 * rank + 1, ...
tensor tens(std::uint32_t rank) {
  tensor made(shape(2, 3), dtype::i64);
  std::iota(made.as<std::int64_t>().begin(), made.as<std::int64_t>().end(), 10 * rank);
  return made;
}

bool is_tens(const tensor& x, std::uint32_t rank) {
  const tensor expected = tens(rank);
  return x.shape() == expected.shape() && x.type() == dtype::i64 &&
         std::ranges::equal(x.as<std::int64_t>(), expected.as<std::int64_t>());
}

task<> give_around(trainer me, std::vector<int>* good) {
  const group all = me.group();
  const std::uint32_t ranks = all.size();
  int& score = (*good)[me.rank()];
  const auto gathered = co_await all.all_gather(tens(me.rank()));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) score += is_tens(gathered.at(rank), rank) ? 1 : 0;
  for (std::uint32_t root = 0; root < ranks; ++root) {
    const tensor mine = root == me.rank() ? tens(root) : tensor();
    const tensor from_root = co_await all.broadcast(mine, root);
    score += is_tens(from_root, root) ? 1 : 0;

    const auto at_root = co_await all.gather(tens(me.rank()), root);
    score += at_root.size() == (root == me.rank() ? ranks : 0) ? 1 : 0;
    for (std::uint32_t rank = 0; rank < at_root.size(); ++rank) score += is_tens(at_root[rank], rank) ? 0 : -100;

    std::vector<tensor> parts;
    for (std::uint32_t rank = 0; rank < ranks && root == me.rank(); ++rank) parts.push_back(tens(root + rank));
    const tensor part = co_await all.scatter(parts, root);
    score += is_tens(part, root + me.rank()) ? 1 : 0;
  }
  co_await all.barrier();
}

TEST(Group, GathersBroadcastsAndScatters) {
  for (std::uint32_t ranks = 1; ranks <= ranks_max; ++ranks) {
    std::vector<int> good(ranks);
    run(ranks, give_around, &good);
    EXPECT_EQ(good, std::vector<int>(ranks, static_cast<int>(4 * ranks))) << ranks << " ranks";
  }
}

task<> pass_around(trainer me, std::vector<std::string>* seen) {
  const group all = me.group();
  const std::uint32_t next = (me.rank() + 1) % all.size();
  const std::uint32_t before = (me.rank() + all.size() - 1) % all.size();
  tensor scrap = tens(me.rank());
  all.send(scrap, next, 7);
  std::ranges::fill(scrap.as<std::int64_t>(), -1);  // the tensor was copied
  all.send(tens(me.rank() + 50), next);
  all.send(tens(me.rank() + 60), next, 7);
  auto last = all.recv(before, 7);
  auto second = all.recv(before, 7);
  const tensor untagged = co_await all.recv(before);
  const tensor b = co_await std::move(second);
  const tensor a = co_await std::move(last);
  (*seen)[me.rank()] =
      is_tens(a, before) && is_tens(b, before + 60) && is_tens(untagged, before + 50) ? "right" : "wrong";
}

TEST(Group, MatchesWhatIsSentBySenderAndTagInOrder) {
  for (std::uint32_t ranks = 2; ranks <= ranks_max; ++ranks) {
    std::vector<std::string> seen(ranks);
    run(ranks, pass_around, &seen);
    EXPECT_EQ(seen, std::vector<std::string>(ranks, "right"));
  }
}

task<> have_many_under_way(trainer me, std::vector<int>* good) {
  std::vector<future<tensor>> coming;
  for (std::uint32_t i = 0; i < 20; ++i)
    coming.push_back(me.group().all_reduce(numbers_of<float>(me.rank() + i, 20'000)));
  auto barrier = me.group().barrier();
  co_await std::move(barrier);
  for (std::uint32_t i = 20; i-- > 0;) {
    const tensor sum = co_await std::move(coming[i]);
    std::vector<float> expected(20'000);
    for (std::uint32_t rank = 0; rank < me.trainers(); ++rank) {
      const tensor its = numbers_of<float>(rank + i, 20'000);
      for (std::size_t k = 0; k < expected.size(); ++k)
        expected[k] = rank == 0 ? its.as<float>()[k] : expected[k] + its.as<float>()[k];
    }
    (*good)[me.rank()] += same_bits(sum, expected) ? 1 : 0;
  }
}

TEST(Group, HasSeveralCollectivesUnderWay) {
  std::vector<int> good(3);
  run(3, have_many_under_way, &good);
  EXPECT_EQ(good, std::vector<int>(3, 20));
}

task<> split(trainer me, std::vector<std::vector<double>>* sums) {
  const tensor mine = tensor::of<double>(shape(1), std::vector<double>{std::pow(10, me.rank())});
  const group half =
      me.group().subgroup(me.rank() % 2 == 0 ? std::vector<std::uint32_t>{4, 0, 2} : std::vector<std::uint32_t>{1, 3});
  const group again =
      me.group().subgroup(me.rank() % 2 == 0 ? std::vector<std::uint32_t>{4, 0, 2} : std::vector<std::uint32_t>{1, 3});
  auto coming = again.all_gather(mine);  // another group numbers its own calls
  const tensor sum = co_await half.all_reduce(mine);
  (*sums)[me.rank()].push_back(sum.item());
  const auto gathered = co_await std::move(coming);
  for (const tensor& one : gathered) (*sums)[me.rank()].push_back(one.item());
  (*sums)[me.rank()].push_back(half.rank());
  if (me.rank() == 4 || me.rank() == 2) {
    const group ends = half.subgroup({0, 2});
    const tensor two = co_await ends.all_reduce(mine);
    (*sums)[me.rank()].push_back(two.item());
  }
  const tensor everyone = co_await me.group().all_reduce(mine);
  (*sums)[me.rank()].push_back(everyone.item());
}

TEST(Group, HasSubgroupsWithRanksOfTheirOwn) {
  std::vector<std::vector<double>> sums(5);
  run(5, split, &sums);
  EXPECT_EQ(sums[0], (std::vector<double>{10'101, 10'000, 1, 100, 1, 11'111}));
  EXPECT_EQ(sums[1], (std::vector<double>{1'010, 10, 1'000, 0, 11'111}));
  EXPECT_EQ(sums[2], (std::vector<double>{10'101, 10'000, 1, 100, 2, 10'100, 11'111}));
  EXPECT_EQ(sums[3], (std::vector<double>{1'010, 10, 1'000, 1, 11'111}));
  EXPECT_EQ(sums[4], (std::vector<double>{10'101, 10'000, 1, 100, 0, 10'100, 11'111}));
}

task<> reduce_special(trainer me, std::vector<std::string>* text) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> mine = me.rank() == 0   ? std::vector<double>{nan, 1, 0.0, -0.0}
                                   : me.rank() == 1 ? std::vector<double>{2, nan, -0.0, 0.0}
                                                    : std::vector<double>{3, 4, 5, 5};
  for (const reduce_op how : {reduce_op::min, reduce_op::max}) {
    const tensor x = tensor::of<double>(shape(4), mine);
    const tensor least = co_await me.group().all_reduce(x, how);
    for (const double one : least.as<double>())
      (*text)[me.rank()] += std::isnan(one)     ? "nan "
                            : std::signbit(one) ? "-0 "
                                                : std::to_string(static_cast<int>(one)) + " ";
  }
  tensor most(shape(1), dtype::i64);
  most.as<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::max();
  const tensor wrapped = co_await me.group().all_reduce(most);
  (*text)[me.rank()] += std::to_string(wrapped.as<std::int64_t>()[0]);
}

TEST(Group, KnowsNanZerosAndOverflow) {
  std::vector<std::string> text(3);
  run(3, reduce_special, &text);
  EXPECT_EQ(text, std::vector<std::string>(3, "nan nan 0 -0 nan nan 5 5 9223372036854775805"));
}

}  // namespace
}  // namespace troupe::group_test
