// Goal: columns of a table, alone on their server, have the same bits as in whole rows: kernels combine no numbers
// within a row, and vector code and its remainder compute alike. Method: trains tables whole and in parts of odd
// widths, with every element-wise optimizer.

#include "model/table_split.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "model/embedding_bag.hpp"
#include "model/random.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::model::table_split_test {
namespace {

constexpr std::size_t dim = 37;
constexpr std::int64_t rows = 29;

/// 9 bags of up to 6 rows, with repeated rows.
struct made_bags {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;

  explicit made_bags(std::uint64_t seed) {
    random_sequence random(mix(seed));
    for (std::size_t bag = 0; bag < 9; ++bag) {
      offsets.push_back(static_cast<std::int64_t>(indices.size()));
      for (std::uint64_t left = random.below(7); left > 0; --left)
        indices.push_back(static_cast<std::int64_t>(random.below(rows)));
    }
  }

  kernels::bags_view view() const { return {indices, offsets, {}}; }
};

/// A table's bytes, and its pooled outputs in each step.
struct trained {
  std::vector<std::byte> weights;
  std::vector<std::vector<float>> state;
  std::vector<std::vector<float>> pooled;
};

/// Trains the columns of a shard for four steps; their gradients are slices of the whole table's.
trained train(embedding_bag_options options, shard_of shard) {
  options.shard = shard;
  embedding_bag table(options);
  const column_range mine = columns_on(dim, shard);
  kernels::test::source_of_numbers random(11);
  trained result;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    const made_bags bags(step);
    std::vector<float>& out = result.pooled.emplace_back(bags.offsets.size() * table.dim());
    table.forward(bags.view(), out.data());
    const auto grads = random.numbers(bags.offsets.size() * dim);
    EXPECT_EQ(
        table.step(step, std::vector{embedding_bag::contribution{bags.view(), {grads.data() + mine.first, dim}}}, 0.5F),
        std::nullopt);
  }
  result.weights.assign(table.weight_bytes().begin(), table.weight_bytes().end());
  for (const auto& one : table.state()) result.state.emplace_back(one.numbers.begin(), one.numbers.end());
  return result;
}

/// Expects that `part` [count, width] has the columns `range` of `whole` [count, dim]; numbers have `bytes` bytes.
void expect_columns(const void* part, const void* whole, std::size_t count, std::size_t bytes, column_range range) {
  for (std::size_t row = 0; row < count; ++row)
    ASSERT_EQ(std::memcmp(static_cast<const char*>(part) + row * range.count * bytes,
                          static_cast<const char*>(whole) + (row * dim + range.first) * bytes, range.count * bytes),
              0)
        << "row " << row << ", columns from " << range.first;
}

TEST(TableSplit, ColumnsAloneHaveTheBitsOfWholeRows) {
  for (const std::string optimizer : {"sgd:momentum=0.9,nesterov=true,weight_decay=0.01", "adagrad:weight_decay=0.01",
                                      "adam:weight_decay=0.01", "lazy-sgd:momentum=0.9", "lazy-adam", "sgd"})
    for (const auto dtype : {kernels::row_dtype::f32, kernels::row_dtype::f16, kernels::row_dtype::bf16})
      for (const auto mode : {kernels::pooling::sum, kernels::pooling::mean}) {
        SCOPED_TRACE(optimizer);
        embedding_bag_options options;
        options.rows = rows;
        options.dim = dim;
        options.mode = mode;
        options.dtype = dtype;
        options.optimizer = *parse_optimizer(optimizer, optimizer_use::table);
        options.optimizer.lr = 0.1;
        const trained whole = train(options, {});
        for (const std::uint32_t shards : {2U, 3U, 5U, 37U})
          for (std::uint32_t index = 0; index < shards; ++index) {
            const shard_of shard{index, shards, table_split::columns};
            const column_range range = columns_on(dim, shard);
            const trained part = train(options, shard);
            expect_columns(part.weights.data(), whole.weights.data(), rows, size_of(dtype), range);
            ASSERT_EQ(part.state.size(), whole.state.size());
            for (std::size_t i = 0; i < whole.state.size(); ++i)
              expect_columns(part.state[i].data(), whole.state[i].data(), rows, sizeof(float), range);
            for (std::size_t i = 0; i < whole.pooled.size(); ++i)
              expect_columns(part.pooled[i].data(), whole.pooled[i].data(), 9, sizeof(float), range);
          }
      }
}

}  // namespace
}  // namespace troupe::model::table_split_test
