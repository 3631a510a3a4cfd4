// Row-wise behaviour of a table: optimizers that skip untouched rows, schedules, rows of 16 bits, and gradient norms
// that do not depend on how rows are sharded.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "model/embedding_bag.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::model::table_rows_test {
namespace {

using kernels::row_dtype;
using kernels::test::bag_batch;
using kernels::test::make_bags;
using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr std::int64_t table_rows = 20;

embedding_bag_options options_with(const std::string& optimizer, std::size_t dim, double lr = 0.1) {
  embedding_bag_options options;
  options.rows = table_rows;
  options.dim = dim;
  options.optimizer = *parse_optimizer(optimizer, optimizer_use::table);
  options.optimizer.lr = lr;
  return options;
}

/// One rank's contributions to a step: bags of the rows below 15, and their gradients.
struct rank_step {
  bag_batch bags;
  std::size_t dim;
  std::vector<float> grad;

  rank_step(source_of_numbers& random, std::size_t columns)
      : bags(kernels::test::make_bags(random, 5, 15, false)), dim(columns) {
    grad = random.numbers(bags.offsets.size() * dim);
  }

  embedding_bag::contribution contribution() const { return {bags.view(), {grad.data(), dim}}; }

  bool touches(std::int64_t row) const { return std::ranges::find(bags.indices, row) != bags.indices.end(); }

  /// The gradient of row `row`, column `d`, in double.
  double of(std::int64_t row, std::size_t d) const {
    double sum = 0;
    const auto view = bags.view();
    for (std::size_t bag = 0; bag < view.size(); ++bag)
      for (std::size_t i = view.begin_of(bag); i < view.end_of(bag); ++i)
        if (view.indices[i] == row) sum += static_cast<double>(grad[bag * dim + d]);
    return sum;
  }
};

/// A weight and its state in double, and one step as in PyTorch's documentation.
struct element {
  double weight = 0;
  double first = 0;
  double second = 0;

  void sgd(double grad, double lr, double momentum, bool nesterov, double decay) {
    grad += decay * weight;
    first = momentum * first + grad;
    weight -= lr * (nesterov ? grad + momentum * first : first);
  }

  void adam(double grad, double lr, double decay, int t) {
    grad += decay * weight;
    first = 0.9 * first + 0.1 * grad;
    second = 0.999 * second + 0.001 * grad * grad;
    weight -= lr * first / (1 - std::pow(0.9, t)) / (std::sqrt(second / (1 - std::pow(0.999, t))) + 1e-8);
  }
};

// Not every row is touched in every step: untouched rows stay the same, but the step count advances.
TEST(LazyOptimizers, StepTheTouchedRowsAndLeaveTheOthersAlone) {
  for (const std::string name :
       {"lazy-sgd:momentum=0.9", "lazy-sgd:momentum=0.9,nesterov=true", "lazy-sgd:momentum=0.5,weight_decay=0.02",
        "lazy-sgd:weight_decay=0.02", "lazy-adam", "lazy-adam:weight_decay=0.02"}) {
    for (const std::size_t dim : {1, 5, 16}) {
      SCOPED_TRACE(name + ", dim " + std::to_string(dim));
      const auto options = options_with(name, dim);
      embedding_bag table(options);
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      std::vector<element> expected(table.weights().size());
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i].weight = static_cast<double>(table.weights()[i]);
      for (int t = 1; t <= 6; ++t) {
        const rank_step one(random, dim);
        const std::vector<float> before(table.weights().begin(), table.weights().end());
        std::vector<std::vector<float>> state_before;
        for (const auto& [numbers, columns] : table.state()) state_before.emplace_back(numbers.begin(), numbers.end());
        const embedding_bag::contribution contributions[] = {one.contribution()};
        ASSERT_EQ(table.step(static_cast<std::uint64_t>(t), contributions, 1), std::nullopt);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const auto row = static_cast<std::int64_t>(i / dim);
          if (!one.touches(row)) {
            ASSERT_TRUE(kernels::test::same_bits({&before[i], 1}, table.weights().subspan(i, 1))) << "row " << row;
            for (std::size_t s = 0; s < state_before.size(); ++s)
              ASSERT_TRUE(kernels::test::same_bits({&state_before[s][i], 1}, table.state()[s].numbers.subspan(i, 1)));
            continue;
          }
          const double grad = one.of(row, i % dim);
          if (const auto* adam = options.optimizer.as<adam_options>())
            expected[i].adam(grad, 0.1, adam->weight_decay, t);
          else if (const auto* sgd = options.optimizer.as<sgd_options>())
            expected[i].sgd(grad, 0.1, sgd->momentum, sgd->nesterov, sgd->weight_decay);
          ASSERT_NEAR(table.weights()[i], expected[i].weight, 1e-4) << "step " << t << " row " << row;
        }
      }
    }
  }
}

TEST(RowwiseAdagrad, StepsTheTouchedRowsWithOneSumEach) {
  for (const std::size_t dim : {1, 5, 16}) {
    embedding_bag table(options_with("rowwise-adagrad:eps=1e-3,initial_accumulator_value=0.5,weight_decay=0.02", dim));
    source_of_numbers random(static_cast<std::uint32_t>(dim));
    std::vector<double> weights(table.weights().begin(), table.weights().end());
    std::vector<double> sums(table_rows, 0.5);
    for (std::uint64_t t = 1; t <= 6; ++t) {
      const rank_step one(random, dim);
      const embedding_bag::contribution contributions[] = {one.contribution()};
      ASSERT_EQ(table.step(t, contributions, 0.5F), std::nullopt);
      for (std::int64_t row = 0; row < table_rows; ++row) {
        if (!one.touches(row)) continue;
        const auto r = static_cast<std::size_t>(row);
        std::vector<double> grad(dim);
        double squares = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          grad[d] = 0.5 * one.of(row, d) + 0.02 * weights[r * dim + d];
          squares += grad[d] * grad[d];
        }
        sums[r] += squares / static_cast<double>(dim);
        for (std::size_t d = 0; d < dim; ++d) weights[r * dim + d] -= 0.1 * grad[d] / (std::sqrt(sums[r]) + 1e-3);
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(table.weights()[i], weights[i], 1e-5) << i / dim;
    for (std::size_t r = 0; r < sums.size(); ++r) ASSERT_NEAR(table.state()[0].numbers[r], sums[r], 1e-5) << r;
  }
}

// cosine:2 halves the second step's learning rate; the third's is 0.
TEST(Tables, FollowTheSchedule) {
  auto options = options_with("sgd", 1, 1.0);
  options.optimizer.schedule = *parse_lr_schedule("cosine:2");
  embedding_bag table(options);
  table.weights()[3] = 0;
  const bag_batch bags{{3}, {0}, {}};
  const float grad = 1;
  const embedding_bag::contribution contributions[] = {{bags.view(), {&grad, 1}}};
  std::vector<float> seen;
  for (std::uint64_t t = 1; t <= 3; ++t) {
    table.step(t, contributions, 1);
    seen.push_back(table.weights()[3]);
  }
  EXPECT_EQ(seen, (std::vector<float>{-1, -1.5F, -1.5F}));
}

std::vector<float> all_rows(embedding_bag& table) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(table.rows()));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
  std::vector<float> numbers(indices.size() * table.dim());
  table.forward({indices, {}, {}}, numbers.data());
  return numbers;
}

TEST(RowsOf16Bits, BeginAsTheRoundedRowsOfFloats) {
  for (const row_dtype dtype : {row_dtype::f16, row_dtype::bf16}) {
    for (const std::size_t dim : {1, 7, 64}) {
      auto options = options_with("sgd", dim);
      const embedding_bag floats(options);
      options.dtype = dtype;
      const embedding_bag table(options);
      ASSERT_EQ(table.weight_bytes().size(), table_rows * dim * 2);
      std::vector<std::uint16_t> expected(table_rows * dim);
      kernels::encode(expected.size(), floats.weights().data(), {expected.data(), dtype});
      EXPECT_EQ(std::memcmp(table.weight_bytes().data(), expected.data(), expected.size() * 2), 0);
    }
  }
}

// A step of 2^-12 is half the distance from 1 to the next lower f16: the tie goes to the even one, 1. In bf16 that
// distance is 2^-8.
TEST(RowsOf16Bits, RoundOnceToTheNearestAfterAStep) {
  struct expectation {
    row_dtype dtype;
    float step;
    float result;
  };
  for (const auto& [dtype, step, result] :
       {expectation{row_dtype::f16, 0x1p-12F, 1.0F}, expectation{row_dtype::f16, 0x1.8p-12F, 1.0F - 0x1p-11F},
        expectation{row_dtype::bf16, 0x1p-9F, 1.0F}, expectation{row_dtype::bf16, 0x1.8p-9F, 1.0F - 0x1p-8F}}) {
    auto options = options_with("sgd", 3, 1.0);
    options.dtype = dtype;
    embedding_bag table(options);
    const std::vector<float> ones(table_rows * 3, 1.0F);
    kernels::encode(ones.size(), ones.data(), {table.weight_bytes().data(), dtype});
    const bag_batch bags{{4}, {0}, {}};
    const std::vector<float> grad(3, step);
    const embedding_bag::contribution contributions[] = {{bags.view(), {grad.data(), 3}}};
    ASSERT_EQ(table.step(1, contributions, 1), std::nullopt);
    const auto rows = all_rows(table);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], i / 3 == 4 ? result : 1.0F) << i;
  }
}

TEST(RowsOf16Bits, KeepTheOptimizersStateInFloats) {
  auto options = options_with("adam", 4);
  options.dtype = row_dtype::f16;
  embedding_bag table(options);
  for (const auto& [numbers, columns] : table.state()) EXPECT_EQ(numbers.size(), table_rows * 4U);
}

TEST(GradientNorm, DoesNotDependOnHowRowsAreSpread) {
  constexpr std::size_t dim = 9;
  source_of_numbers random(1);
  // Rows of very different sizes, so that any other way to sum them gives different bits.
  std::vector<float> grad = random.numbers(table_rows * dim);
  for (std::size_t i = 0; i < grad.size(); ++i) grad[i] = std::ldexp(grad[i], static_cast<int>(i / dim * 3) - 30);
  const auto norm_of = [&](std::uint32_t shards) {
    exact_sum total;
    for (std::uint32_t s = shards; s-- > 0;) {
      auto options = options_with("sgd", dim);
      options.shard = {s, shards};
      embedding_bag table(options);
      std::vector<std::int64_t> indices;
      std::vector<float> part;
      for (std::int64_t row = 0; row < table.rows(); ++row) {
        indices.push_back(row);
        const auto at = static_cast<std::size_t>(table.whole_row(row)) * dim;
        part.insert(part.end(), &grad[at], &grad[at] + dim);
      }
      const embedding_bag::contribution contributions[] = {{{indices, {}, {}}, {part.data(), dim}}};
      table.collect(contributions);
      total.merge(table.squared_norm(0.5F));
    }
    return total;
  };
  exact_sum one = norm_of(1);
  double expected = 0;
  for (const float g : grad) expected += 0.25 * static_cast<double>(g) * static_cast<double>(g);
  EXPECT_NEAR(one.value(), expected, 1e-12 * expected);
  for (const std::uint32_t shards : {2U, 3U, 7U, 30U}) {
    exact_sum several = norm_of(shards);
    EXPECT_TRUE(std::ranges::equal(several.limbs(), one.limbs())) << shards;
  }
}

// Two ranks touch row 5: (1 + 2) * 0.5 = 1.5 there; row 7 has 4 * 0.5 = 2.
TEST(GradientNorm, IsThatOfTheMergedGradient) {
  embedding_bag table(options_with("sgd", 1));
  const bag_batch first{{5}, {0}, {}};
  const bag_batch second{{7, 5}, {0, 1}, {}};
  const std::vector<float> grads = {1, 4, 2};
  const embedding_bag::contribution contributions[] = {{first.view(), {&grads[0], 1}}, {second.view(), {&grads[1], 1}}};
  table.collect(contributions);
  EXPECT_EQ(table.squared_norm(0.5F).value(), 1.5 * 1.5 + 2 * 2);
  table.collect({});
  EXPECT_EQ(table.squared_norm(0.5F).value(), 0);
}

TEST(GradientNorm, OfWhatIsNotFiniteIsNan) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    embedding_bag table(options_with("sgd", 1));
    const bag_batch bags{{5, 6}, {0, 1}, {}};
    const std::vector<float> grads = {1, bad};
    const embedding_bag::contribution contributions[] = {{bags.view(), {grads.data(), 1}}};
    table.collect(contributions);
    EXPECT_TRUE(std::isnan(table.squared_norm(1).value()));
  }
}

TEST(GradientNorm, AskedForInBetweenChangesNothingInAStep) {
  for (const char* optimizer : {"sgd", "adam", "rowwise-adagrad", "lazy-adam"}) {
    const auto options = options_with(optimizer, 6);
    embedding_bag at_once(options);
    embedding_bag in_parts(options);
    source_of_numbers random(4);
    for (std::uint64_t t = 1; t <= 3; ++t) {
      const rank_step one(random, 6);
      const rank_step two(random, 6);
      const embedding_bag::contribution contributions[] = {one.contribution(), two.contribution()};
      ASSERT_EQ(at_once.step(t, contributions, 0.25F), std::nullopt);
      in_parts.collect(contributions);
      EXPECT_GT(in_parts.squared_norm(0.5F).value(), 0);
      in_parts.apply(t, 0.25F);
      ASSERT_EQ(in_parts.bad_row(), std::nullopt);
    }
    EXPECT_TRUE(kernels::test::same_bits(at_once.weights(), in_parts.weights())) << optimizer;
  }
}

}  // namespace
}  // namespace troupe::model::table_rows_test
