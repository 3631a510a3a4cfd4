// The table module: initial rows, lookup, and its optimizer steps against a table whose gradient is dense, in double.

#include "model/embedding_bag.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/stop_request.hpp"
#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::model::embedding_bag_test {
namespace {

using kernels::pooling;
using kernels::test::bag_batch;
using kernels::test::make_bags;
using kernels::test::optimized;
using kernels::test::optimizer_case;
using kernels::test::optimizer_cases;
using kernels::test::reference_step;
using kernels::test::same_bits;
using kernels::test::source_of_numbers;

embedding_bag_options shape_of(std::int64_t rows, std::size_t dim, pooling mode = pooling::sum) {
  embedding_bag_options options;
  options.rows = rows;
  options.dim = dim;
  options.mode = mode;
  return options;
}

optimizer_spec spec_of(const optimizer_case& c) {
  optimizer_spec spec;
  using namespace kernels::test;
  if (c.kind == kernels::optimizer_kind::sgd) spec.options = sgd_options{c.momentum, c.weight_decay, c.nesterov};
  if (c.kind == kernels::optimizer_kind::adagrad) spec.options = adagrad_options{epsilon, 0, c.weight_decay};
  if (c.kind == kernels::optimizer_kind::adam) spec.options = adam_options{beta1, beta2, epsilon, c.weight_decay};
  spec.lr = c.lr;
  return spec;
}

std::span<const float> row_of(const embedding_bag& table, std::int64_t row) {
  return table.weights().subspan(static_cast<std::size_t>(row) * table.dim(), table.dim());
}

TEST(EmbeddingBag, ShardsHoldEveryRowOfTheWholeTableOnce) {
  for (const std::int64_t rows : {1, 2, 7, 100, 101}) {
    for (const std::uint32_t shards : {1U, 2U, 3U, 5U, 8U}) {
      std::vector<int> held(static_cast<std::size_t>(rows));
      for (std::uint32_t s = 0; s < shards; ++s) {
        auto options = shape_of(rows, 1);
        options.shard = {s, shards};
        const embedding_bag table(options);
        ASSERT_EQ(table.rows(), rows_on(rows, options.shard));
        ASSERT_EQ(table.weights().size(), static_cast<std::size_t>(table.rows()));
        for (std::int64_t row = 0; row < table.rows(); ++row) ++held.at(static_cast<std::size_t>(table.whole_row(row)));
      }
      EXPECT_EQ(held, std::vector<int>(static_cast<std::size_t>(rows), 1)) << rows << " rows, " << shards << " shards";
    }
  }
}

// Otherwise the process of a finished run would draw all rows first.
TEST(EmbeddingBag, ATableIsNotMadeWhenAStopIsAskedFor) {
  stop_request over;
  const stop_scope heeds(over);
  auto options = shape_of(101, 9);
  EXPECT_NO_THROW(embedding_bag{options});
  over.request();
  EXPECT_THROW(embedding_bag{options}, std::runtime_error);
  options.shard = {0, 3, table_split::columns};
  EXPECT_THROW(embedding_bag{options}, std::runtime_error);
}

// Rows are drawn in batches.
TEST(EmbeddingBag, InitialRowsDoNotDependOnHowManyAreDrawnAtATime) {
  auto options = shape_of(3, 1 << 23);
  options.seed = 5;
  const embedding_bag whole(options);
  for (options.shard = {0, 3}; options.shard.index < 3; ++options.shard.index)
    EXPECT_TRUE(kernels::test::same_bits(row_of(embedding_bag(options), 0), row_of(whole, options.shard.index)));
}

TEST(EmbeddingBag, InitialRowsDoNotDependOnTheSharding) {
  auto options = shape_of(101, 9);
  options.seed = 42;
  options.table = 3;
  const embedding_bag whole(options);
  for (const std::uint32_t shards : {2U, 3U, 5U, 101U, 150U}) {
    for (options.shard = {0, shards}; options.shard.index < shards; ++options.shard.index) {
      const embedding_bag part(options);
      for (std::int64_t row = 0; row < part.rows(); ++row)
        ASSERT_TRUE(kernels::test::same_bits(row_of(part, row), row_of(whole, part.whole_row(row))))
            << "row " << row << " of shard " << options.shard.index << " of " << shards;
    }
  }
}

TEST(EmbeddingBag, InitialColumnsDoNotDependOnTheSharding) {
  auto options = shape_of(101, 21);
  options.seed = 42;
  options.table = 3;
  for (const auto dtype : {kernels::row_dtype::f32, kernels::row_dtype::f16, kernels::row_dtype::bf16}) {
    options.dtype = dtype;
    const std::size_t number = size_of(dtype);
    options.shard = {};
    const embedding_bag whole(options);
    for (const std::uint32_t shards : {1U, 2U, 3U, 5U, 21U}) {
      std::vector<std::byte> joined(whole.weight_bytes().size());
      std::size_t column = 0;
      for (std::uint32_t index = 0; index < shards; ++index) {
        options.shard = {index, shards, table_split::columns};
        const embedding_bag part(options);
        EXPECT_EQ(part.rows(), 101);
        EXPECT_EQ(part.dim(), 21 / shards + (index < 21 % shards ? 1 : 0));
        for (std::size_t row = 0; row < 101; ++row)
          std::ranges::copy(part.weight_bytes().subspan(row * part.dim() * number, part.dim() * number),
                            joined.begin() + static_cast<std::ptrdiff_t>((row * 21 + column) * number));
        column += part.dim();
      }
      EXPECT_TRUE(std::ranges::equal(joined, whole.weight_bytes())) << shards << " shards";
    }
  }
}

TEST(EmbeddingBag, InitialRowsDifferBySeedAndTableAndFromEachOther) {
  auto options = shape_of(50, 8);
  const embedding_bag one(options);
  EXPECT_TRUE(kernels::test::same_bits(one.weights(), embedding_bag(options).weights()));
  options.seed = 2;
  const embedding_bag other_seed(options);
  options.seed = 1;
  options.table = 1;
  const embedding_bag other_table(options);
  for (std::int64_t row = 0; row < 50; ++row) {
    EXPECT_FALSE(kernels::test::same_bits(row_of(one, row), row_of(other_seed, row)));
    EXPECT_FALSE(kernels::test::same_bits(row_of(one, row), row_of(other_table, row)));
    if (row > 0) {
      EXPECT_FALSE(kernels::test::same_bits(row_of(one, row), row_of(one, row - 1)));
    }
  }
}

// 320 000 values: the deviations are 0.0018 for the mean, 0.0025 for the mean square, 0.0018 for the product of
// neighbours.
TEST(EmbeddingBag, InitialWeightsHaveMeanZeroAndDeviationOne) {
  embedding_bag table(shape_of(10'000, 32));
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  const auto weights = table.weights();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto w = static_cast<double>(weights[i]);
    sum += w;
    squares += w * w;
    if (i >= 32) neighbours += w * static_cast<double>(weights[i - 32]);
  }
  const auto count = static_cast<double>(weights.size());
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.015);
  EXPECT_NEAR(neighbours / count, 0, 0.01);
}

TEST(EmbeddingBag, ForwardPoolsBagByBag) {
  const std::vector<float> weights = {1, 10, 2, 20, 4, -40};
  const bag_batch bags{{2, 0, 2, 1}, {0, 3, 3}, {}};
  const bag_batch weighted{{2, 0, 2, 1}, {0, 3, 3}, {1, 2, 0.5F, -1}};
  const auto pooled = [&](pooling mode, const bag_batch& b) {
    embedding_bag table(shape_of(3, 2, mode));
    std::copy(weights.begin(), weights.end(), table.weights().begin());
    std::vector<float> out(6, -1.0F);
    table.forward(b.view(), out.data());
    return out;
  };
  EXPECT_EQ(pooled(pooling::sum, bags), (std::vector<float>{9, -70, 0, 0, 2, 20}));
  EXPECT_EQ(pooled(pooling::mean, bags), (std::vector<float>{3, -70.0F / 3, 0, 0, 2, 20}));
  EXPECT_EQ(pooled(pooling::max, bags), (std::vector<float>{4, 10, 0, 0, 2, 20}));
  EXPECT_EQ(pooled(pooling::sum, weighted), (std::vector<float>{8, -40, 0, 0, -2, -20}));
}

TEST(EmbeddingBag, ForwardWithoutOffsetsGivesTheRowsThemselves) {
  const std::vector<std::int64_t> indices = {5, 0, 5, 11};
  for (const auto mode : {pooling::sum, pooling::mean, pooling::max}) {
    embedding_bag table(shape_of(12, 17, mode));
    std::vector<float> out(4 * 17);
    table.forward({indices, {}, {}}, out.data());
    for (std::size_t i = 0; i < indices.size(); ++i)
      EXPECT_TRUE(kernels::test::same_bits(std::span(out).subspan(i * 17, 17), row_of(table, indices[i]))) << i;
  }
}

/// Adds the contributions of `bags` to a dense gradient [rows, dim], in double.
void add_dense(pooling mode, const bag_batch& bags, const std::vector<float>& grad, std::size_t dim, double scale,
               std::vector<double>& dense) {
  const auto view = bags.view();
  const std::size_t count = bags.offsets.empty() ? bags.indices.size() : bags.offsets.size();
  for (std::size_t b = 0; b < count; ++b) {
    const std::size_t begin = bags.offsets.empty() ? b : view.begin_of(b);
    const std::size_t end = bags.offsets.empty() ? b + 1 : view.end_of(b);
    for (std::size_t i = begin; i < end; ++i) {
      double factor = bags.weights.empty() ? scale : scale * static_cast<double>(bags.weights[i]);
      if (mode == pooling::mean) factor /= static_cast<double>(end - begin);
      for (std::size_t d = 0; d < dim; ++d)
        dense[static_cast<std::size_t>(bags.indices[i]) * dim + d] += factor * static_cast<double>(grad[b * dim + d]);
    }
  }
}

/// Six steps of three contributions each; rows 20 and above are never touched, the others not in every step.
void expect_dense_steps(const optimizer_case& c, pooling mode, std::size_t dim, std::uint32_t seed) {
  constexpr std::int64_t rows = 25;
  auto options = shape_of(rows, dim, mode);
  options.optimizer = spec_of(c);
  embedding_bag table(options);
  source_of_numbers random(seed);
  kernels::test::optimized<double> reference(c, {table.weights().begin(), table.weights().end()});
  for (int step = 1; step <= 6; ++step) {
    std::vector<bag_batch> bags = {kernels::test::make_bags(random, 4, 20, mode == pooling::sum),
                                   kernels::test::make_bags(random, 5, 7, false),
                                   kernels::test::make_bags(random, 2, 20, false)};
    bags.back().offsets.clear();
    std::vector<std::vector<float>> grads;
    std::vector<embedding_bag::contribution> contributions;
    std::vector<double> dense(rows * dim);
    for (const auto& b : bags)
      grads.push_back(random.numbers((b.offsets.empty() ? b.indices.size() : b.offsets.size()) * dim));
    for (std::size_t i = 0; i < bags.size(); ++i) {
      contributions.push_back({bags[i].view(), {grads[i].data(), dim}});
      add_dense(bags[i].offsets.empty() ? pooling::sum : mode, bags[i], grads[i], dim, 0.25, dense);
    }
    ASSERT_EQ(table.step(static_cast<std::uint64_t>(step), contributions, 0.25F), std::nullopt);
    for (std::size_t i = 0; i < dense.size(); ++i) kernels::test::reference_step(c, step, reference, i, dense[i]);
    for (std::size_t i = 0; i < dense.size(); ++i)
      ASSERT_NEAR(static_cast<double>(table.weights()[i]), reference.weights[i], 3e-5)
          << "step " << step << ", row " << i / dim << ", column " << i % dim;
  }
}

TEST(EmbeddingBag, StepsAreThoseOfADenseGradient) {
  std::uint32_t seed = 0;
  for (const auto& c : kernels::test::optimizer_cases()) {
    for (const auto mode : {pooling::sum, pooling::mean}) {
      for (const std::size_t dim : {1, 5, 16, 33}) {
        SCOPED_TRACE(testing::Message() << c.name << (mode == pooling::sum ? ", sum, " : ", mean, ") << dim);
        expect_dense_steps(c, mode, dim, ++seed);
      }
    }
  }
}

TEST(EmbeddingBag, UntouchedRowsKeepTheirBitsUnlessTheOptimizerMovesThem) {
  const std::vector<float> grad = {1, 1, 1};
  const bag_batch one_row{{1}, {0}, {}};
  const bag_batch other_row{{2}, {0}, {}};
  for (const auto& c : kernels::test::optimizer_cases()) {
    auto options = shape_of(4, 3);
    options.optimizer = spec_of(c);
    embedding_bag table(options);
    const embedding_bag before(options);
    const embedding_bag::contribution first[] = {{one_row.view(), {grad.data(), 3}}};
    const embedding_bag::contribution second[] = {{other_row.view(), {grad.data(), 3}}};
    table.step(1, first, 1);
    const std::vector<float> once(row_of(table, 1).begin(), row_of(table, 1).end());
    table.step(2, second, 1);
    const bool decays = c.weight_decay != 0;
    const bool has_momentum = c.momentum != 0 || c.kind == kernels::optimizer_kind::adam;
    EXPECT_EQ(kernels::test::same_bits(row_of(table, 0), row_of(before, 0)), !decays) << c.name;
    EXPECT_EQ(kernels::test::same_bits(row_of(table, 1), once), !decays && !has_momentum) << c.name;
    EXPECT_FALSE(kernels::test::same_bits(row_of(table, 2), row_of(before, 2))) << c.name;
  }
}

TEST(EmbeddingBag, AGradientThatIsNotFiniteReturnsTheFirstRowThatHasIt) {
  const bag_batch bags{{6, 3, 6, 9}, {0, 1, 2, 3}, {}};
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const auto& c : kernels::test::optimizer_cases()) {
      auto options = shape_of(10, 2);
      options.optimizer = spec_of(c);
      embedding_bag table(options);
      std::vector<float> grad(8, 1.0F);
      const embedding_bag::contribution contributions[] = {{bags.view(), {grad.data(), 2}}};
      EXPECT_EQ(table.step(1, contributions, 1), std::nullopt) << c.name;
      grad[5] = bad;  // bag 2, row 6
      grad[7] = bad;  // bag 3, row 9
      EXPECT_EQ(table.step(2, contributions, 1), 6) << c.name;
    }
  }
}

TEST(EmbeddingBag, StateIsAsBigAsTheWeightsAndStartsAsTheOptimizerSays) {
  auto options = shape_of(4, 3);
  EXPECT_TRUE(embedding_bag(options).state().empty());
  options.optimizer.options = adagrad_options{.initial_accumulator_value = 0.5};
  embedding_bag adagrad(options);
  ASSERT_EQ(adagrad.state().size(), 1U);
  EXPECT_EQ(adagrad.state()[0].columns, 3U);
  EXPECT_TRUE(kernels::test::same_bits(adagrad.state()[0].numbers, std::vector<float>(12, 0.5F)));
  options.optimizer.options = rowwise_adagrad_options{{.initial_accumulator_value = 0.5}};
  embedding_bag rowwise(options);
  ASSERT_EQ(rowwise.state().size(), 1U);
  EXPECT_EQ(rowwise.state()[0].columns, 1U);
  EXPECT_TRUE(kernels::test::same_bits(rowwise.state()[0].numbers, std::vector<float>(4, 0.5F)));
  options.optimizer.options = adam_options();
  embedding_bag adam(options);
  ASSERT_EQ(adam.state().size(), 2U);
  for (const auto& [numbers, columns] : adam.state()) {
    EXPECT_EQ(columns, 3U);
    EXPECT_TRUE(kernels::test::same_bits(numbers, std::vector<float>(12)));
  }
}

}  // namespace
}  // namespace troupe::model::embedding_bag_test
