// Row-wise Adagrad and norms of rows: compared with the formula in double, and their order of summation.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/optimizer.hpp"
#include "tests/kernels/row_gradients.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::rowwise_test {
namespace {

constexpr std::size_t table_rows = 9;
constexpr std::size_t dims[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64, 100, 257, 2049, 5000};

update_constants constants_of(double lr, double eps, double weight_decay) {
  update_constants c;
  c.kind = optimizer_kind::rowwise_adagrad;
  c.lr = static_cast<float>(lr);
  c.eps = static_cast<float>(eps);
  c.weight_decay = static_cast<float>(weight_decay);
  return c;
}

/// Two ranks' sources with four rows each, for rows 1, 4 and 7 of the table.
struct two_ranks {
  std::vector<float> first;
  std::vector<float> second;
  gradients grads;

  two_ranks(source_of_numbers& random, std::size_t dim)
      : first(random.numbers(4 * dim)), second(random.numbers(4 * dim)) {
    grads.add_row(1);
    grads.occurrences.push_back({0, 0, 1.0F});
    grads.add_row(4);
    grads.occurrences.insert(grads.occurrences.end(), {{0, 1, 0.5F}, {0, 2, 0.5F}, {1, 0, 1.0F}});
    grads.add_row(7);
    grads.occurrences.insert(grads.occurrences.end(), {{1, 3, -2.0F}});
    grads.close();
    grads.sources = {first.data(), second.data()};
    grads.strides = {dim, dim};
  }

  /// The gradient of a row in double, with the scales of `grads`.
  std::vector<double> of_row(std::size_t row, std::size_t dim) const {
    std::vector<double> sum(dim);
    for (std::size_t i = 0; i < grads.rows.size(); ++i) {
      if (grads.rows[i] != static_cast<std::int64_t>(row)) continue;
      for (std::size_t k = grads.starts[i]; k < grads.starts[i + 1]; ++k) {
        const occurrence& o = grads.occurrences[k];
        for (std::size_t d = 0; d < dim; ++d)
          sum[d] += static_cast<double>(o.scale) * static_cast<double>(grads.sources[o.rank][o.row * dim + d]);
      }
    }
    for (double& x : sum) x *= static_cast<double>(grads.scale);
    return sum;
  }
};

bool is_touched(std::size_t row) { return row == 1 || row == 4 || row == 7; }

// The formula for each element, with lr 0.1 and eps 1e-8; 10 roundings per step of values below 4.
TEST(RowwiseAdagrad, FollowsTheFormulaOnTouchedRows) {
  for (const double weight_decay : {0.0, 0.02}) {
    on_every_target([&] {
      for (const std::size_t dim : dims) {
        SCOPED_TRACE("dim " + std::to_string(dim));
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const auto initial = random.numbers(table_rows * dim);
        auto weights = initial;
        std::vector<double> expected(initial.begin(), initial.end());
        std::vector<float> sums(table_rows, 0.25F);
        std::vector<double> expected_sums(table_rows, 0.25);
        for (int t = 1; t <= 4; ++t) {
          const two_ranks ranks(random, dim);
          std::int64_t bad_row = -1;
          ASSERT_TRUE(update_rows(constants_of(0.1, 1e-8, weight_decay), table_rows, dim, weights.data(),
                                  {sums.data(), nullptr}, ranks.grads.view(), false, &bad_row));
          for (std::size_t row = 0; row < table_rows; ++row) {
            if (!is_touched(row)) continue;
            auto grad = ranks.of_row(row, dim);
            double squares = 0;
            for (std::size_t d = 0; d < dim; ++d) {
              grad[d] += weight_decay * expected[row * dim + d];
              squares += grad[d] * grad[d];
            }
            expected_sums[row] += squares / static_cast<double>(dim);
            for (std::size_t d = 0; d < dim; ++d)
              expected[row * dim + d] -= 0.1 * grad[d] / (std::sqrt(expected_sums[row]) + 1e-8);
          }
        }
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (!is_touched(i / dim)) {
            ASSERT_EQ(weights[i], initial[i]) << "row " << i / dim;
          }
          ASSERT_NEAR(weights[i], expected[i], 4 * 40 * rounding) << "row " << i / dim;
        }
        for (std::size_t row = 0; row < table_rows; ++row)
          ASSERT_NEAR(sums[row], expected_sums[row], 40 * rounding * expected_sums[row]) << "row " << row;
      }
    });
  }
}

TEST(RowwiseAdagrad, RoundsRowsOf16BitsOnceAfterTheStepInFloat) {
  for (const row_dtype type : {row_dtype::f16, row_dtype::bf16}) {
    on_every_target([&] {
      for (const std::size_t dim : dims) {
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const auto initial = random.numbers(table_rows * dim);
        std::vector<std::uint16_t> stored(initial.size());
        encode(initial.size(), initial.data(), {stored.data(), type});
        std::vector<float> floats(initial.size());
        decode({stored.data(), type}, stored.size(), floats.data());
        std::vector<float> sums(table_rows);
        std::vector<float> sums_of_floats(table_rows);
        const two_ranks ranks(random, dim);
        const auto c = constants_of(0.1, 1e-8, 0.02);
        std::int64_t bad_row = -1;
        ASSERT_TRUE(update_rows(c, table_rows, dim, {stored.data(), type}, {sums.data(), nullptr}, ranks.grads.view(),
                                false, &bad_row));
        ASSERT_TRUE(update_rows(c, table_rows, dim, floats.data(), {sums_of_floats.data(), nullptr}, ranks.grads.view(),
                                false, &bad_row));
        std::vector<std::uint16_t> expected(stored.size());
        encode(floats.size(), floats.data(), {expected.data(), type});
        ASSERT_EQ(stored, expected) << "dim " << dim;
        ASSERT_TRUE(same_bits(sums, sums_of_floats)) << "dim " << dim;
      }
    });
  }
}

TEST(RowwiseAdagrad, LeavesARowAloneWhoseGradientIsNotFinite) {
  on_every_target([] {
    for (const std::size_t dim : dims) {
      source_of_numbers random(3);
      two_ranks ranks(random, dim);
      ranks.first[2 * dim + dim - 1] = std::numeric_limits<float>::infinity();  // row 4
      std::vector<float> weights(table_rows * dim, 1.0F);
      std::vector<float> sums(table_rows);
      std::int64_t bad_row = -1;
      EXPECT_FALSE(update_rows(constants_of(0.1, 1e-8, 0), table_rows, dim, weights.data(), {sums.data(), nullptr},
                               ranks.grads.view(), false, &bad_row));
      EXPECT_EQ(bad_row, 4);
      EXPECT_GT(sums[1], 0);
      EXPECT_EQ(sums[4], 0);
      EXPECT_EQ(weights[4 * dim], 1.0F);
      EXPECT_EQ(weights[7 * dim], 1.0F);
    }
  });
}

/// The summation order of stream_kernels.inc, in plain code.
double ordered_squares(const std::vector<float>& x) {
  double s[8] = {};
  for (std::size_t i = 0; i < x.size(); ++i) s[i % 8] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/// Numbers of very different sizes, so that each order of summation gives different bits.
std::vector<float> uneven(source_of_numbers& random, std::size_t count) {
  auto numbers = random.numbers(count);
  for (float& x : numbers) x = std::ldexp(x, static_cast<int>(random.below(40)) - 20);
  return numbers;
}

TEST(SquaredNorm, HasTheBitsOfItsOrderOnEveryTarget) {
  on_every_target([] {
    for (std::size_t count = 0; count < 300; ++count) {
      source_of_numbers random(static_cast<std::uint32_t>(count));
      const auto x = uneven(random, count);
      ASSERT_EQ(result_of(&stream::squared_norm, count, x.data()), ordered_squares(x)) << count;
    }
  });
}

TEST(SquaredNorm, NeitherOverflowsNorUnderflows) {
  const std::vector<float> large(3, std::numeric_limits<float>::max());
  EXPECT_EQ(result_of(&stream::squared_norm, 3, large.data()), 3 * std::pow(static_cast<double>(large[0]), 2));
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(result_of(&stream::squared_norm, 1, &tiny), std::ldexp(1.0, -298));
}

TEST(SquaredNorm, OfWhatIsNotFiniteIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (std::size_t at = 0; at < 19; ++at) {
      std::vector<float> x(19, 1.0F);
      x[at] = bad;
      EXPECT_FALSE(std::isfinite(result_of(&stream::squared_norm, 19, x.data()))) << at;
    }
  }
}

// With one occurrence of factor one, the gradient equals its source bitwise.
TEST(RowSquaredNorms, AreThoseOfTheMergedRows) {
  on_every_target([] {
    for (const std::size_t dim : dims) {
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      const auto source = uneven(random, 3 * dim);
      gradients grads;
      for (std::uint32_t i = 0; i < 3; ++i) {
        grads.add_row(2 * i);
        grads.occurrences.push_back({0, i, 1.0F});
      }
      grads.close();
      grads.sources = {source.data()};
      grads.strides = {dim};
      grads.scale = 0.5F;
      std::vector<double> norms(3);
      row_squared_norms(dim, grads.view(), norms.data());
      for (std::size_t i = 0; i < 3; ++i) {
        std::vector<float> row(source.begin() + static_cast<std::ptrdiff_t>(i * dim),
                               source.begin() + static_cast<std::ptrdiff_t>((i + 1) * dim));
        for (float& x : row) x *= 0.5F;
        EXPECT_EQ(norms[i], ordered_squares(row)) << "row " << i << " dim " << dim;
      }
    }
  });
}

TEST(RowSquaredNorms, SumUpSeveralRanksAndPassOnWhatIsNotFinite) {
  for (const std::size_t dim : dims) {
    source_of_numbers random(static_cast<std::uint32_t>(dim));
    two_ranks ranks(random, dim);
    std::vector<double> norms(3);
    row_squared_norms(dim, ranks.grads.view(), norms.data());
    for (std::size_t i = 0; i < 3; ++i) {
      double expected = 0;
      for (const double x : ranks.of_row(static_cast<std::size_t>(ranks.grads.rows[i]), dim)) expected += x * x;
      EXPECT_NEAR(norms[i], expected, 1e-5 * (1 + expected)) << "row " << i << " dim " << dim;
    }
    ranks.second[3 * dim] = std::numeric_limits<float>::quiet_NaN();
    row_squared_norms(dim, ranks.grads.view(), norms.data());
    EXPECT_TRUE(std::isfinite(norms[1]));
    EXPECT_FALSE(std::isfinite(norms[2]));
  }
}

}  // namespace
}  // namespace troupe::kernels::test::rowwise_test
