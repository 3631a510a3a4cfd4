// Embedding bag, forward and backward, against sums in double.

#include "kernels/embedding_bag.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::embedding_bag_test {
namespace {

constexpr std::size_t table_rows = 7;
constexpr std::size_t batches[] = {0, 1, 2, 7, 33};
constexpr float untouched = 12345.0F;

struct pooling_case {
  std::string name;
  pooling mode;
  bool weighted;
};

void PrintTo(const pooling_case& one, std::ostream* out) { *out << one.name; }

const pooling_case pooling_cases[] = {{"sum", pooling::sum, false},
                                      {"weighted_sum", pooling::sum, true},
                                      {"mean", pooling::mean, false},
                                      {"max", pooling::max, false}};

class EmbeddingBag : public testing::TestWithParam<pooling_case> {};

/// A value in double, and its allowed error in float32.
struct bounded {
  double value = 0;
  double bound = 0;
};

double factor_of(const pooling_case& c, const bags_view& bags, std::size_t bag, std::size_t i) {
  if (c.weighted) return static_cast<double>(bags.weights[i]);
  return c.mode == pooling::mean ? 1.0 / static_cast<double>(bags.end_of(bag) - bags.begin_of(bag)) : 1.0;
}

/// Bounds two roundings per product and sum, and some for the division of the mean.
bounded sum_of(const std::vector<double>& terms) {
  bounded sum;
  for (const double term : terms) {
    sum.value += term;
    sum.bound += std::abs(term);
  }
  sum.bound *= (2 * static_cast<double>(terms.size()) + 3) * rounding;
  return sum;
}

std::size_t first_maximum(const std::vector<float>& table, std::size_t dim, const bags_view& bags, std::size_t bag,
                          std::size_t column) {
  const auto value = [&](std::size_t i) { return table[static_cast<std::size_t>(bags.indices[i]) * dim + column]; };
  std::size_t winner = bags.begin_of(bag);
  for (std::size_t i = winner; i < bags.end_of(bag); ++i) {
    if (value(i) > value(winner)) winner = i;
  }
  return winner;
}

bounded expected_output(const pooling_case& c, const std::vector<float>& table, std::size_t dim, const bags_view& bags,
                        std::size_t bag, std::size_t column) {
  const auto value = [&](std::size_t i) {
    return static_cast<double>(table[static_cast<std::size_t>(bags.indices[i]) * dim + column]);
  };
  if (bags.begin_of(bag) == bags.end_of(bag)) return {};
  if (c.mode == pooling::max) return {value(first_maximum(table, dim, bags, bag, column)), 0};
  std::vector<double> terms;
  for (std::size_t i = bags.begin_of(bag); i < bags.end_of(bag); ++i) {
    terms.push_back(factor_of(c, bags, bag, i) * value(i));
  }
  return sum_of(terms);
}

void check_forward(const pooling_case& c, std::size_t dim, std::size_t batch, std::size_t stride) {
  source_of_numbers random(static_cast<std::uint32_t>(dim * 100 + batch));
  const std::vector<float> table = random.numbers(table_rows * dim);
  const bag_batch bags = make_bags(random, batch, table_rows, c.weighted);
  // The buffer ends with the last row, so that a sanitizer sees any write past it.
  std::vector<float> out(batch == 0 ? 0 : (batch - 1) * stride + dim, untouched);
  host_stream().embedding_bag_forward(c.mode, table.data(), dim, bags.view(), out.data(), stride);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t column = 0; column < dim; ++column) {
      const bounded expected = expected_output(c, table, dim, bags.view(), b, column);
      ASSERT_NEAR(out[b * stride + column], expected.value, expected.bound) << "bag " << b << " column " << column;
    }
    for (std::size_t gap = b * stride + dim; gap < std::min((b + 1) * stride, out.size()); ++gap) {
      ASSERT_EQ(out[gap], untouched) << "between rows " << b << " and " << b + 1;
    }
  }
}

TEST_P(EmbeddingBag, ForwardIsThePooledRows) {
  on_every_target([&] {
    for (const std::size_t dim : odd_sizes) {
      for (const std::size_t batch : batches) {
        SCOPED_TRACE("dim " + std::to_string(dim) + " batch " + std::to_string(batch));
        check_forward(GetParam(), dim, batch, dim);
        check_forward(GetParam(), dim, batch, dim + 5);
      }
    }
  });
}

/// Gradients of rows in double: terms[row * dim + column] are their contributions.
std::vector<std::vector<double>> expected_terms(const pooling_case& c, const std::vector<float>& table, std::size_t dim,
                                                const bags_view& bags, const std::vector<float>& grad,
                                                std::size_t stride) {
  std::vector<std::vector<double>> terms(table_rows * dim);
  for (std::size_t b = 0; b < bags.size(); ++b) {
    for (std::size_t column = 0; column < dim; ++column) {
      for (std::size_t i = bags.begin_of(b); i < bags.end_of(b); ++i) {
        if (c.mode == pooling::max && i != first_maximum(table, dim, bags, b, column)) continue;
        const double value = static_cast<double>(grad[b * stride + column]) * factor_of(c, bags, b, i);
        terms[static_cast<std::size_t>(bags.indices[i]) * dim + column].push_back(value);
      }
    }
  }
  return terms;
}

TEST_P(EmbeddingBag, BackwardAddsEachBagsGradientToItsRows) {
  const pooling_case& c = GetParam();
  on_every_target([&] {
    for (const std::size_t dim : odd_sizes) {
      for (const std::size_t batch : batches) {
        SCOPED_TRACE("dim " + std::to_string(dim) + " batch " + std::to_string(batch));
        source_of_numbers random(static_cast<std::uint32_t>(dim * 100 + batch + 1));
        const std::vector<float> table = random.numbers(table_rows * dim);
        const bag_batch bags = make_bags(random, batch, table_rows, c.weighted);
        const std::size_t stride = dim + batch % 4;
        const std::vector<float> grad = random.numbers(batch == 0 ? 0 : (batch - 1) * stride + dim);
        std::vector<float> row_grads(table_rows * dim, 0.0F);
        const float* const read_table = c.mode == pooling::max ? table.data() : nullptr;
        embedding_bag_backward(c.mode, read_table, dim, bags.view(), grad.data(), stride, row_grads.data());
        const auto terms = expected_terms(c, table, dim, bags.view(), grad, stride);
        for (std::size_t at = 0; at < row_grads.size(); ++at) {
          const bounded expected = sum_of(terms[at]);
          ASSERT_NEAR(row_grads[at], expected.value, expected.bound) << "row " << at / dim << " column " << at % dim;
        }
      }
    }
  });
}

TEST_P(EmbeddingBag, BitsDoNotDependOnHowColumnsAreCut) {
  const pooling_case& c = GetParam();
  on_every_target([&] {
    constexpr std::size_t dim = 100;
    constexpr std::size_t part = 37;
    source_of_numbers random(11);
    const std::vector<float> table = random.numbers(table_rows * dim);
    const bag_batch bags = make_bags(random, 7, table_rows, c.weighted);
    std::vector<float> part_of_table;
    for (std::size_t row = 0; row < table_rows; ++row) {
      part_of_table.insert(part_of_table.end(), &table[row * dim], &table[row * dim + part]);
    }
    std::vector<float> whole(7 * dim);
    std::vector<float> alone(7 * part);
    host_stream().embedding_bag_forward(c.mode, table.data(), dim, bags.view(), whole.data(), dim);
    host_stream().embedding_bag_forward(c.mode, part_of_table.data(), part, bags.view(), alone.data(), part);
    for (std::size_t b = 0; b < 7; ++b) {
      EXPECT_TRUE(same_bits({&whole[b * dim], part}, {&alone[b * part], part})) << "bag " << b;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, EmbeddingBag, testing::ValuesIn(pooling_cases),
                         [](const testing::TestParamInfo<pooling_case>& tested) { return tested.param.name; });

TEST(EmbeddingBagSum, AddsInIndexOrder) {
  // Any other order or grouping of these four gives a different sum.
  const std::vector<float> table = {1e8F, 1.0F, -1e8F, 3.0F};
  const bag_batch bags{{0, 1, 2, 3}, {0}, {}};
  float out = 0;
  host_stream().embedding_bag_forward(pooling::sum, table.data(), 1, bags.view(), &out, 1);
  EXPECT_EQ(out, 3.0F);
}

TEST(EmbeddingBagMean, DividesRatherThanMultipliesByARoundedReciprocal) {
  for (std::size_t length = 1; length <= 100; ++length) {
    const std::vector<float> table = {5.0F / 3.0F};
    const bag_batch bags{std::vector<std::int64_t>(length, 0), {0}, {}};
    float sum = 0;
    float mean = 0;
    host_stream().embedding_bag_forward(pooling::sum, table.data(), 1, bags.view(), &sum, 1);
    host_stream().embedding_bag_forward(pooling::mean, table.data(), 1, bags.view(), &mean, 1);
    EXPECT_EQ(mean, sum / static_cast<float>(length)) << "length " << length;
  }
}

TEST(EmbeddingBagMax, GivesTheGradientOfATieToTheFirstEntry) {
  on_every_target([] {
    for (const std::size_t dim : odd_sizes) {
      std::vector<float> table(3 * dim, 2.0F);
      std::fill_n(table.begin(), dim, 1.0F);
      const bag_batch bags{{0, 2, 1}, {0}, {}};
      const std::vector<float> grad(dim, 4.0F);
      std::vector<float> row_grads(3 * dim, 0.0F);
      embedding_bag_backward(pooling::max, table.data(), dim, bags.view(), grad.data(), dim, row_grads.data());
      for (std::size_t column = 0; column < dim; ++column) {
        ASSERT_EQ(row_grads[column], 0.0F);
        ASSERT_EQ(row_grads[dim + column], 0.0F);
        ASSERT_EQ(row_grads[2 * dim + column], 4.0F);
      }
    }
  });
}

TEST(EmbeddingBagMax, OfNegativeRowsIsNegative) {
  const std::vector<float> table = {-3.0F, -2.0F};
  const bag_batch bags{{0, 1}, {0}, {}};
  float out = 0;
  host_stream().embedding_bag_forward(pooling::max, table.data(), 1, bags.view(), &out, 1);
  EXPECT_EQ(out, -2.0F);
}

TEST(GatherRows, CopiesRows) {
  on_every_target([] {
    for (const std::size_t dim : odd_sizes) {
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      const std::vector<float> table = random.numbers(50 * dim);
      std::vector<std::int64_t> indices;
      for (std::size_t i = 0; i < 70; ++i) indices.push_back(static_cast<std::int64_t>(random.below(50)));
      std::vector<float> out(indices.size() * dim);
      host_stream().gather_rows(table.data(), dim, indices, out.data());
      for (std::size_t i = 0; i < indices.size(); ++i) {
        const auto row = static_cast<std::size_t>(indices[i]);
        ASSERT_TRUE(same_bits({&out[i * dim], dim}, {&table[row * dim], dim})) << "row " << i << " dim " << dim;
      }
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::test::embedding_bag_test
