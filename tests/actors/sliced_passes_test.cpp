// The passes of a stage's slices alone: slices are objects, and the test carries their shares in an order drawn from a
// seed. Sums are compared bit for bit with a plain loop over the slices.

#include "actors/trainer/sliced_passes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/random.hpp"
#include "protocol/errors.hpp"

namespace troupe::actors::sliced_passes_test {
namespace {

constexpr std::uint32_t first_rank = 4;
constexpr std::uint32_t slices = 3;
constexpr std::size_t numbers = 5;

/// A slice's share of a sum; the sum of these numbers depends on their order.
float share_of(std::uint32_t slice, std::uint64_t sum, std::size_t i) {
  return std::ldexp(1.0F + 0.1F * static_cast<float>(i), static_cast<int>((slice * 11 + sum * 5) % 30));
}

float plain_sum(std::uint64_t sum, std::size_t i) {
  float all = share_of(0, sum, i);
  for (std::uint32_t slice = 1; slice < slices; ++slice) all += share_of(slice, sum, i);
  return all;
}

/// The slices of a stage, and the shares in flight between them.
struct staged {
  staged() {
    for (std::uint32_t slice = 0; slice < slices; ++slice)
      all.push_back(
          std::make_unique<sliced_passes>(model::slice_place{slice, slices}, first_rank, traces[slice],
                                          [this, slice](std::uint64_t number, const msg::tensor& share) {
                                            for (std::uint32_t to = 0; to < slices; ++to)
                                              if (to != slice)
                                                sent[slice][to].push_back({{}, first_rank + slice, number, share});
                                          }));
  }

  /// Makes a slice add up `count` sums.
  void run(std::uint32_t slice, std::uint64_t count) {
    all[slice]->run(1, [this, slice, count] {
      for (std::uint64_t sum = 0; sum < count; ++sum) {
        float* const share = all[slice]->share(1, numbers);
        for (std::size_t i = 0; i < numbers; ++i) share[i] = share_of(slice, sum, i);
        std::vector<float> to(numbers);
        all[slice]->sum(to.data());
        sums[slice].push_back(std::move(to));
      }
    });
  }

  std::array<actor_trace, slices> traces;
  std::deque<msg::partial_sum> sent[slices][slices];  ///< by sending slice, then by receiving slice
  std::vector<std::vector<float>> sums[slices];
  std::vector<std::unique_ptr<sliced_passes>> all;  ///< destroyed first: a pass may be waiting
};

TEST(SlicedPasses, AddUpTheSameBitsWheneverSharesCome) {
  constexpr std::uint64_t count = 6;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    staged run;
    model::random_sequence random(model::mix(seed));
    std::uint32_t begun = 0;
    for (bool is_over = false; !is_over;) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> ways;
      for (std::uint32_t from = 0; from < slices; ++from)
        for (std::uint32_t to = 0; to < slices; ++to)
          if (!run.sent[from][to].empty()) ways.emplace_back(from, to);
      const bool may_begin = begun < slices;  // a share may arrive before its pass begins
      is_over = ways.empty() && !may_begin;
      if (may_begin && (ways.empty() || random.below(4) == 0)) {
        run.run(begun++, count);
      } else if (!ways.empty()) {
        const auto [from, to] = ways[random.below(ways.size())];
        auto& way = run.sent[from][to];
        const auto error = run.all[to]->take(std::move(way.front()));
        ASSERT_FALSE(error) << protocol::describe(error);
        way.pop_front();
      }
    }
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      EXPECT_FALSE(run.all[slice]->is_waiting());
      ASSERT_EQ(run.sums[slice].size(), count);
      for (std::uint64_t sum = 0; sum < count; ++sum)
        for (std::size_t i = 0; i < numbers; ++i) EXPECT_EQ(run.sums[slice][sum][i], plain_sum(sum, i));
    }
  }
}

TEST(SlicedPasses, WaitForTheSharesThatTheyName) {
  staged run;
  EXPECT_FALSE(run.all[1]->is_waiting());
  run.run(1, 1);
  EXPECT_TRUE(run.all[1]->is_waiting());
  const auto missing = [&] {
    msg::actor_status now;
    run.all[1]->report_missing(9, now);
    std::string told;
    for (const auto& one : now.waits) told += fmt::format("{} of step {} on {}; ", one.what, one.step, one.on);
    return told;
  };
  EXPECT_EQ(missing(), "a sum over the slices of step 9 on trainer 4; a sum over the slices of step 9 on trainer 6; ");
  run.run(2, 1);
  EXPECT_FALSE(run.all[1]->take(std::move(run.sent[2][1].front())));
  EXPECT_EQ(missing(), "a sum over the slices of step 9 on trainer 4; ");
  run.run(0, 1);
  EXPECT_FALSE(run.all[1]->take(std::move(run.sent[0][1].front())));
  EXPECT_FALSE(run.all[1]->is_waiting());
}

TEST(SlicedPasses, OfOneSliceRunAtOnce) {
  actor_trace trace;
  sliced_passes alone({0, 1}, first_rank, trace, [](std::uint64_t, const msg::tensor&) {});
  bool has_run = false;
  alone.run(1, [&] { has_run = true; });
  EXPECT_TRUE(has_run);
  EXPECT_FALSE(alone.is_waiting());
}

msg::partial_sum made(std::uint32_t rank, std::uint64_t number, std::size_t count = numbers) {
  return {{}, rank, number, msg::tensor::own(1, count, std::vector<float>(count))};
}

TEST(SlicedPasses, RefuseSharesThatAreNotToCome) {
  staged run;
  const auto error_of = [&](msg::partial_sum share) {
    const auto error = run.all[1]->take(std::move(share));
    return error ? protocol::describe(error) : std::string();
  };
  EXPECT_EQ(error_of(made(first_rank - 1, 0)), "a partial sum of trainer 3, which has no slice of this stage");
  EXPECT_EQ(error_of(made(first_rank + slices, 0)), "a partial sum of trainer 7, which has no slice of this stage");
  EXPECT_EQ(error_of(made(first_rank + 1, 0)), "a share of sum 0 of slice 1, the next one is 0") << "its own";
  EXPECT_EQ(error_of(made(first_rank, 1)), "a share of sum 1 of slice 0, the next one is 0");
  EXPECT_EQ(error_of(made(first_rank, 0)), "");
  EXPECT_EQ(error_of(made(first_rank, 0)), "a share of sum 0 of slice 0, the next one is 1") << "twice";
  EXPECT_EQ(error_of(made(first_rank, 1)), "") << "it may be one ahead";
  EXPECT_EQ(error_of(made(first_rank, 2)), "a share of sum 2 of slice 0, the next one is 2") << "and not two";
  msg::partial_sum whole_numbers = made(first_rank + 2, 0);
  whole_numbers.numbers = msg::tensor::own(1, 1, std::vector<std::int64_t>(1));
  EXPECT_EQ(error_of(std::move(whole_numbers)), "a share of sum 0 that is not a matrix of f32");
}

TEST(SlicedPasses, FailWhereASliceHasAnotherShape) {
  staged run;
  run.run(1, 1);
  EXPECT_FALSE(run.all[1]->take(made(first_rank, 0)));
  EXPECT_THROW(static_cast<void>(run.all[1]->take(made(first_rank + 2, 0, 2))), std::runtime_error);
}

}  // namespace
}  // namespace troupe::actors::sliced_passes_test
