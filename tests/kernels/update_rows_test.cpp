// Row-wise optimizer updates, against the formulas in double, and bitwise against the same gradients summed by other
// kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/embedding_bag.hpp"
#include "kernels/optimizer.hpp"
#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/row_gradients.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::update_rows_test {
namespace {

constexpr std::size_t table_rows = 11;
constexpr std::size_t rank_count = 3;
/// Row sizes for each path of the kernel: in registers, in blocks, and in several chunks.
constexpr std::size_t dims[] = {1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 128, 257, 2048, 5000};

/// One rank's bags and their gradients.
struct rank_input {
  bag_batch bags;
  std::vector<float> grad;
  std::size_t stride = 0;
};

struct pooled {
  pooling mode;
  bool weighted;
};

constexpr pooled pooled_cases[] = {{pooling::sum, false}, {pooling::sum, true}, {pooling::mean, false}};

/// Three ranks. Rank 1 touches only rows below 4, and no rank touches the last row.
std::vector<rank_input> make_ranks(source_of_numbers& random, std::size_t dim, bool weighted) {
  std::vector<rank_input> ranks(rank_count);
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    ranks[rank].bags = make_bags(random, 5, rank == 1 ? 4 : table_rows - 1, weighted);
    ranks[rank].stride = dim + rank;
    ranks[rank].grad = random.numbers(5 * ranks[rank].stride);
  }
  return ranks;
}

/// Each occurrence separately, from the bags.
gradients by_occurrence(const std::vector<rank_input>& ranks, pooling mode) {
  gradients all;
  for (std::size_t row = 0; row < table_rows; ++row) {
    std::vector<occurrence> found;
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const bags_view bags = ranks[rank].bags.view();
      for (std::uint32_t bag = 0; bag < bags.size(); ++bag) {
        for (std::size_t i = bags.begin_of(bag); i < bags.end_of(bag); ++i) {
          if (static_cast<std::size_t>(bags.indices[i]) != row) continue;
          float scale = bags.weights.empty() ? 1.0F : bags.weights[i];
          if (mode == pooling::mean) scale = 1.0F / static_cast<float>(bags.end_of(bag) - bags.begin_of(bag));
          found.push_back({rank, bag, scale});
        }
      }
    }
    if (found.empty()) continue;
    all.add_row(row);
    all.occurrences.insert(all.occurrences.end(), found.begin(), found.end());
  }
  all.close();
  for (const rank_input& rank : ranks) {
    all.sources.push_back(rank.grad.data());
    all.strides.push_back(rank.stride);
  }
  return all;
}

/// Each rank's gradient of the whole table, summed by the embedding bag's backward.
std::vector<std::vector<float>> summed_by_backward(const std::vector<rank_input>& ranks, pooling mode,
                                                   std::size_t dim) {
  std::vector<std::vector<float>> sums;
  for (const rank_input& rank : ranks) {
    sums.emplace_back(table_rows * dim, 0.0F);
    embedding_bag_backward(mode, nullptr, dim, rank.bags.view(), rank.grad.data(), rank.stride, sums.back().data());
  }
  return sums;
}

/// The same rows, with one occurrence per rank, in the ranks' summed gradients.
gradients by_rank(const gradients& all, const std::vector<std::vector<float>>& sums, std::size_t dim) {
  gradients one_each;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    one_each.add_row(static_cast<std::size_t>(all.rows[i]));
    for (std::uint32_t rank = 0; rank < rank_count; ++rank) {
      const auto begin = all.occurrences.begin() + all.starts[i];
      const auto end = all.occurrences.begin() + all.starts[i + 1];
      const bool present = std::any_of(begin, end, [rank](const occurrence& o) { return o.rank == rank; });
      if (present) one_each.occurrences.push_back({rank, static_cast<std::uint32_t>(all.rows[i]), 1.0F});
    }
  }
  one_each.close();
  for (const auto& sum : sums) one_each.sources.push_back(sum.data());
  one_each.strides.assign(rank_count, dim);
  return one_each;
}

void expect_same(const optimized<float>& a, const optimized<float>& b) {
  EXPECT_TRUE(same_bits(a.weights, b.weights));
  EXPECT_TRUE(same_bits(a.first, b.first));
  EXPECT_TRUE(same_bits(a.second, b.second));
}

void expect_same_rows(const optimized<float>& a, const optimized<float>& b, const std::vector<std::int64_t>& rows,
                      std::size_t dim) {
  ASSERT_FALSE(rows.empty());
  for (const std::int64_t row : rows) {
    const std::size_t at = static_cast<std::size_t>(row) * dim;
    EXPECT_TRUE(same_bits({&a.weights[at], dim}, {&b.weights[at], dim})) << "row " << row;
  }
}

bool update(const optimizer_case& c, int t, std::size_t dim, optimized<float>& table, const gradients& grads,
            bool every_row, std::int64_t* bad_row) {
  return update_rows(constants_of(c, t), table_rows, dim, table.weights.data(), table.view(), grads.view(), every_row,
                     bad_row);
}

class UpdateRowsBy : public testing::TestWithParam<optimizer_case> {};

TEST_P(UpdateRowsBy, GivesTheBitsOfGradientsSummedByTheBackwardKernel) {
  const optimizer_case& c = GetParam();
  on_every_target([&] {
    for (const std::size_t dim : dims) {
      for (const pooled& p : pooled_cases) {
        SCOPED_TRACE("dim " + std::to_string(dim) + (p.weighted ? " weighted" : ""));
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const std::vector<float> initial = random.numbers(table_rows * dim);
        optimized<float> direct(c, initial);
        optimized<float> summed(c, initial);
        optimized<float> every(c, initial);
        optimized<float> dense(c, initial);
        for (int t = 1; t <= 2; ++t) {
          const auto ranks = make_ranks(random, dim, p.weighted);
          const gradients all = by_occurrence(ranks, p.mode);
          const auto sums = summed_by_backward(ranks, p.mode, dim);
          std::int64_t bad_row = -1;
          ASSERT_TRUE(update(c, t, dim, direct, all, false, &bad_row));
          ASSERT_TRUE(update(c, t, dim, summed, by_rank(all, sums, dim), false, &bad_row));
          ASSERT_TRUE(update(c, t, dim, every, all, true, &bad_row));
          std::vector<float> total(table_rows * dim);
          const float* const in[] = {sums[0].data(), sums[1].data(), sums[2].data()};
          host_stream().sum_in_rank_order(in, total.size(), all.scale, total.data());
          host_stream().update_dense(constants_of(c, t), total.size(), dense.weights.data(), dense.view(),
                                     total.data());
          // Later, rows that a step skipped differ from the dense result.
          if (t == 1) expect_same_rows(direct, dense, all.rows, dim);
        }
        expect_same(direct, summed);
        expect_same(every, dense);
      }
    }
  });
}

TEST_P(UpdateRowsBy, FollowsTheFormulaOnTouchedRowsAlone) {
  const optimizer_case& c = GetParam();
  for (const bool every_row : {false, true}) {
    for (const std::size_t dim : {1, 7, 16, 33, 64, 100}) {
      SCOPED_TRACE("dim " + std::to_string(dim) + (every_row ? " every row" : ""));
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      const std::vector<float> initial = random.numbers(table_rows * dim);
      optimized<float> got(c, initial);
      optimized<double> expected(c, initial);
      for (int t = 1; t <= 4; ++t) {
        const auto ranks = make_ranks(random, dim, true);
        const gradients all = by_occurrence(ranks, pooling::sum);
        std::int64_t bad_row = -1;
        ASSERT_TRUE(update(c, t, dim, got, all, every_row, &bad_row));
        ASSERT_EQ(bad_row, -1);
        std::vector<double> grad(initial.size());
        std::vector<bool> touched(table_rows, every_row);
        for (std::size_t i = 0; i < all.rows.size(); ++i) {
          const auto row = static_cast<std::size_t>(all.rows[i]);
          touched[row] = true;
          for (std::size_t k = all.starts[i]; k < all.starts[i + 1]; ++k) {
            const occurrence& o = all.occurrences[k];
            const float* const source = all.sources[o.rank] + o.row * all.strides[o.rank];
            for (std::size_t column = 0; column < dim; ++column) {
              grad[row * dim + column] += static_cast<double>(o.scale) * static_cast<double>(source[column]) / 3;
            }
          }
        }
        for (std::size_t i = 0; i < grad.size(); ++i) {
          if (touched[i / dim]) reference_step(c, t, expected, i, grad[i]);
          // The quotients of Adagrad and Adam inherit the gradient's relative error, which cancellation can make large.
          ASSERT_NEAR(got.weights[i], expected.weights[i], 4e-5 * t) << "step " << t << " row " << i / dim;
        }
      }
    }
  }
}

TEST_P(UpdateRowsBy, RoundsRowsOf16BitsOnceAfterTheStepInFloat) {
  const optimizer_case& c = GetParam();
  for (const row_dtype type : {row_dtype::f16, row_dtype::bf16}) {
    on_every_target([&] {
      for (const std::size_t dim : dims) {
        for (const bool every_row : {false, true}) {
          SCOPED_TRACE("dim " + std::to_string(dim) + (every_row ? " every row" : ""));
          source_of_numbers random(static_cast<std::uint32_t>(dim));
          const std::vector<float> initial = random.numbers(table_rows * dim);
          std::vector<std::uint16_t> stored(initial.size());
          const table_view table(stored.data(), type);
          encode(initial.size(), initial.data(), table);
          optimized<float> state(c, initial);
          optimized<float> floats(c, initial);
          for (int t = 1; t <= 3; ++t) {
            const auto ranks = make_ranks(random, dim, true);
            const gradients all = by_occurrence(ranks, pooling::sum);
            decode({stored.data(), type}, stored.size(), floats.weights.data());
            std::int64_t bad_row = -1;
            ASSERT_TRUE(update(c, t, dim, floats, all, every_row, &bad_row));
            ASSERT_TRUE(
                update_rows(constants_of(c, t), table_rows, dim, table, state.view(), all.view(), every_row, &bad_row));
            std::vector<std::uint16_t> expected(stored.size());
            encode(stored.size(), floats.weights.data(), {expected.data(), type});
            ASSERT_EQ(stored, expected);
            ASSERT_TRUE(same_bits(state.first, floats.first));
            ASSERT_TRUE(same_bits(state.second, floats.second));
          }
        }
      }
    });
  }
}

TEST_P(UpdateRowsBy, LeavesARowAloneWhoseGradientIsNotFinite) {
  const optimizer_case& c = GetParam();
  on_every_target([&] {
    for (const std::size_t dim : dims) {
      for (const bool every_row : {false, true}) {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
          SCOPED_TRACE("dim " + std::to_string(dim) + (every_row ? " every row" : ""));
          source_of_numbers random(static_cast<std::uint32_t>(dim));
          const std::vector<float> initial = random.numbers(table_rows * dim);
          std::vector<float> source = random.numbers(4 * dim);
          source[2 * dim + dim - 1] = bad;
          gradients grads;
          for (std::uint32_t i = 0; i < 4; ++i) {
            grads.add_row(2 * i + 1);  // rows 1, 3, 5 (which is faulty) and 7
            grads.occurrences.push_back({0, i, 1.0F});
          }
          grads.close();
          grads.sources.push_back(source.data());
          grads.strides.push_back(dim);
          optimized<float> table(c, initial);
          std::int64_t bad_row = -1;
          EXPECT_FALSE(update(c, 1, dim, table, grads, every_row, &bad_row));
          EXPECT_EQ(bad_row, 5);
          EXPECT_NE(table.weights[3 * dim], initial[3 * dim]);
          const std::size_t rest = (table_rows - 5) * dim;
          EXPECT_TRUE(same_bits({&table.weights[5 * dim], rest}, {&initial[5 * dim], rest}));
          const std::vector<float> zeros(rest, 0.0F);
          if (!table.first.empty()) {
            EXPECT_TRUE(same_bits({&table.first[5 * dim], rest}, zeros));
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Optimizers, UpdateRowsBy, testing::ValuesIn(optimizer_cases()),
                         [](const testing::TestParamInfo<optimizer_case>& tested) { return tested.param.name; });

TEST(UpdateRows, DoesNotTellAProductThatUnderflowsToMinusZeroFromZero) {
  on_every_target([] {
    // Subtracting the gradient from a weight of -0 would change its sign.
    const float tiny = -1e-30F;
    gradients grads;
    grads.add_row(0);
    grads.occurrences = {{0, 0, 1e-30F}};
    grads.close();
    grads.sources = {&tiny};
    grads.strides = {1};
    float weight = -0.0F;
    std::int64_t bad_row = -1;
    ASSERT_TRUE(
        update_rows(constants_of({"sgd", optimizer_kind::sgd}, 1), 1, 1, &weight, {}, grads.view(), false, &bad_row));
    EXPECT_TRUE(std::signbit(weight));
  });
}

TEST(UpdateRows, DoesNothingWithoutTouchedRows) {
  gradients grads;
  grads.close();
  std::vector<float> table = {1, 2, 3};
  std::int64_t bad_row = -1;
  EXPECT_TRUE(update_rows(constants_of({"sgd", optimizer_kind::sgd}, 1), 3, 1, table.data(), {}, grads.view(), false,
                          &bad_row));
  EXPECT_EQ(table, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace troupe::kernels::test::update_rows_test
