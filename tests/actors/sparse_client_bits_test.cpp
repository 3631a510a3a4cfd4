// Training through the sparse client gives the same bits for all shardings of the tables and wherever they are pooled.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "actors/server/row_codec.hpp"
#include "tests/actors/sparse_client_support.hpp"
#include "tests/actors/spread_tables.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::sparse_client_test {
namespace {

using kernels::optimizer_kind;
using kernels::row_dtype;
using kernels::test::source_of_numbers;

struct trained_bits {
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> tables;
  /// The number of the ranks' steps in which the trainer pooled each table.
  std::vector<std::size_t> pooled_here;
};

/// Trains four steps of two ranks with random gradients of the input; the ranks alternate in using only few rows.
trained_bits train_some(std::uint32_t shards, const model::optimizer_spec& optimizer, row_dtype wire = row_dtype::f32,
                        bool remote = false, model::table_split split = model::table_split::rows) {
  const model::data_spec spec = all_modes();
  const model::input_layout layout(spec);
  spread_tables tables(spec, shards, optimizer, wire, remote, nullptr, split);
  source_of_numbers random(3);
  trained_bits bits;
  bits.pooled_here.resize(spec.tables.size());
  for (std::uint64_t step = 1; step <= 4; ++step) {
    std::vector<std::vector<std::vector<msg::bag_gradient>>> gradients;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t size = rank == 0 ? 9 : 1 + step;
      const std::int64_t rows_used = (step + rank) % 2 == 0 ? 2 : 1000;
      auto plan = tables.client().prepare(1, random_batch(random, spec, size, step == 2, rows_used));
      for (std::size_t t = 0; t < plan.tables.size(); ++t) bits.pooled_here[t] += plan.tables[t].is_pooled_here ? 1 : 0;
      std::vector<float> input(size * layout.width, untouched);
      EXPECT_FALSE(pool(tables.client(), plan, tables.answer(plan), input));
      const auto grad = random.numbers(input.size());
      gradients.push_back(gradients_of(tables.client(), plan, grad));
      EXPECT_FALSE(tables.client().check_gradients(plan, gradients.back()));
      EXPECT_EQ(gradients.back().size(), tables.client().servers());
      bits.inputs.push_back(std::move(input));
    }
    tables.apply(step, gradients);
  }
  for (std::size_t t = 0; t < spec.tables.size(); ++t) bits.tables.push_back(tables.weights(t));
  return bits;
}

void expect_same(const trained_bits& several, const trained_bits& one, std::uint32_t shards) {
  ASSERT_EQ(several.inputs.size(), one.inputs.size());
  for (std::size_t i = 0; i < one.inputs.size(); ++i)
    EXPECT_TRUE(kernels::test::same_bits(several.inputs[i], one.inputs[i]))
        << "input " << i << ", " << shards << " shards";
  for (std::size_t t = 0; t < one.tables.size(); ++t)
    EXPECT_TRUE(kernels::test::same_bits(several.tables[t], one.tables[t]))
        << "table " << t << ", " << shards << " shards";
}

std::vector<model::optimizer_spec> optimizers() {
  return {{model::sgd_options(), 0.1, {}}, {model::adagrad_options(), 0.1, {}}, {model::adam_options(), 0.1, {}}};
}

TEST(SparseClient, NoBitDependsOnTheNumberOfShards) {
  for (const model::optimizer_spec& optimizer : optimizers()) {
    for (const row_dtype wire : {row_dtype::f32, row_dtype::f16, row_dtype::bf16}) {
      SCOPED_TRACE(name_of(wire));
      const auto one = train_some(1, optimizer, wire);
      for (const std::uint32_t shards : {2U, 3U, 5U}) expect_same(train_some(shards, optimizer, wire), one, shards);
    }
  }
}

/// Some tables have fewer columns than there are servers, so the last servers have none of them.
TEST(SparseClient, NoBitDependsOnTheNumberOfShardsOfColumns) {
  using enum model::table_split;
  for (const model::optimizer_spec& optimizer : optimizers()) {
    for (const row_dtype wire : {row_dtype::f32, row_dtype::f16, row_dtype::bf16}) {
      SCOPED_TRACE(name_of(wire));
      const auto one = train_some(1, optimizer, wire);
      for (const std::uint32_t shards : {1U, 2U, 3U, 5U})
        for (const bool remote : {false, true}) {
          const auto several = train_some(shards, optimizer, wire, remote, columns);
          expect_same(several, one, shards);
          if (wire == row_dtype::f32 && !remote) {
            EXPECT_EQ(several.pooled_here, one.pooled_here);
          }
        }
    }
  }
}

// Two ranks of four steps: sums, means and weighted sums, empty bags, tables that a batch does not use. In the same
// step, one rank may send gradients of its rows, and the other gradients of its pooled rows.
TEST(SparseClient, NoBitDependsOnWhereAWholeTableIsPooled) {
  for (const model::optimizer_spec& optimizer : optimizers()) {
    const auto there = train_some(1, optimizer);
    const auto here = train_some(1, optimizer, row_dtype::f32, true);
    expect_same(here, there, 1);
    expect_same(train_some(3, optimizer, row_dtype::f32, true), there, 3);
    EXPECT_EQ(there.pooled_here, (std::vector<std::size_t>{0, 0, 8, 0, 0})) << "in one process: the maximum only";
    for (const std::size_t t : {0U, 1U, 3U, 4U}) {
      EXPECT_GT(here.pooled_here[t], 0U) << "table " << t;
      EXPECT_LT(here.pooled_here[t], 8U) << "table " << t;
    }
  }
}

}  // namespace
}  // namespace troupe::actors::sparse_client_test
