// Grouping by row, against a map from rows to lists.

#include "kernels/cpu/host_table_gradient.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::kernels::host_table_gradient_test {
namespace {

using test::bag_batch;
using test::make_bags;
using test::source_of_numbers;

/// Source, bag or index, scale.
using contribution = std::tuple<std::uint32_t, std::uint32_t, float>;
using grouping = std::map<std::int64_t, std::vector<contribution>>;

struct source {
  pooling mode;
  bag_batch bags;
};

grouping naive_grouping(const std::vector<source>& sources) {
  grouping rows;
  for (std::uint32_t s = 0; s < sources.size(); ++s) {
    const auto& [mode, bags] = sources[s];
    for (std::uint32_t i = 0; i < bags.indices.size(); ++i) {
      if (bags.offsets.empty()) {
        rows[bags.indices[i]].emplace_back(s, i, 1.0F);
        continue;
      }
      std::uint32_t bag = 0;  // the last one that starts at or before i
      for (std::uint32_t b = 0; b < bags.offsets.size(); ++b) {
        if (bags.offsets[b] <= i) bag = b;
      }
      const auto end =
          bag + 1 < bags.offsets.size() ? static_cast<std::size_t>(bags.offsets[bag + 1]) : bags.indices.size();
      float scale = 1;
      if (!bags.weights.empty()) scale = bags.weights[i];
      if (mode == pooling::mean) scale = 1.0F / static_cast<float>(end - static_cast<std::size_t>(bags.offsets[bag]));
      rows[bags.indices[i]].emplace_back(s, bag, scale);
    }
  }
  return rows;
}

/// Converts a result, keeping the order within a row; checks that rows ascend.
grouping grouping_of(const row_gradients& gradients) {
  grouping rows;
  EXPECT_EQ(gradients.starts.size(), gradients.rows.size() + 1);
  EXPECT_EQ(gradients.starts.front(), 0U);
  EXPECT_EQ(gradients.starts.back(), gradients.occurrences.size());
  for (std::size_t r = 0; r < gradients.rows.size(); ++r) {
    if (r > 0) {
      EXPECT_LT(gradients.rows[r - 1], gradients.rows[r]);
    }
    EXPECT_LT(gradients.starts[r], gradients.starts[r + 1]);
    for (std::uint32_t i = gradients.starts[r]; i < gradients.starts[r + 1]; ++i) {
      const auto& [rank, row, scale] = gradients.occurrences[i];
      rows[gradients.rows[r]].emplace_back(rank, row, scale);
    }
  }
  return rows;
}

row_gradients grouped(host_table_gradient& gradient, group_memory& to, std::int64_t rows,
                      const std::vector<source>& sources, const std::vector<float>& grad) {
  gradient.clear(rows);
  for (std::size_t s = 0; s < sources.size(); ++s)
    gradient.add(sources[s].mode, sources[s].bags.view(), grad.data() + s, 7 + s);
  sort_memory memory;
  return gradient.group(memory, to);
}

// These row counts need zero, one, two and three passes of the sort.
TEST(HostTableGradient, RowsAscendAndKeepTheOrderOfSourcesAndIndices) {
  source_of_numbers random(1);
  host_table_gradient gradient;
  group_memory to;
  const std::vector<float> grad(16);
  for (const std::int64_t rows : {1, 2, 100, 2048, 2049, 5000, 10'000'000}) {
    for (const std::size_t batch : {1, 3, 50, 400}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, batch " << batch);
      const auto bound = static_cast<std::size_t>(rows);
      std::vector<source> sources = {{pooling::sum, kernels::test::make_bags(random, batch, bound, false)},
                                     {pooling::mean, kernels::test::make_bags(random, batch, bound, false)},
                                     {pooling::sum, kernels::test::make_bags(random, batch, bound, true)},
                                     {pooling::mean, kernels::test::make_bags(random, batch, bound, false)}};
      sources.back().bags.offsets.clear();
      // All three bags are empty.
      if (batch != 3) sources.front().bags.indices.back() = rows - 1;
      const row_gradients gradients = grouped(gradient, to, rows, sources, grad);
      ASSERT_EQ(grouping_of(gradients), naive_grouping(sources));
      ASSERT_EQ(gradients.sources.size(), 4U);
      ASSERT_EQ(gradients.source_strides.size(), 4U);
      for (std::size_t s = 0; s < 4; ++s) {
        ASSERT_EQ(gradients.sources[s], grad.data() + s);
        ASSERT_EQ(gradients.source_strides[s], 7 + s);
      }
    }
  }
}

// A word has 20 bits for a row, and 12 for a bag's number; one more bag needs 33.
TEST(HostTableGradient, WordsThatJustFitAreSortedAsOthers) {
  constexpr std::int64_t rows = 1 << 20;
  const std::vector<float> grad(1);
  for (const std::int64_t bags : {4096, 4097}) {
    bag_batch falling;
    for (std::int64_t bag = 0; bag < bags; ++bag) {
      falling.indices.push_back(rows - 1 - 2 * bag);
      falling.offsets.push_back(bag);
    }
    host_table_gradient gradient;
    group_memory to;
    const row_gradients gradients = grouped(gradient, to, rows, {{pooling::sum, falling}}, grad);
    EXPECT_EQ(grouping_of(gradients), naive_grouping({{pooling::sum, falling}}));
    EXPECT_EQ(gradients.rows.back(), rows - 1);
    EXPECT_EQ(gradients.occurrences.front().row, bags - 1);
  }
}

TEST(HostTableGradient, ScalesAreThoseOfThePooling) {
  const std::vector<float> grad(1);
  const bag_batch plain{{5, 5, 3, 5}, {0, 0, 3}, {}};
  const bag_batch weighted{{5, 5, 3, 5}, {0, 0, 3}, {0.5F, -2, 0, 4}};
  const bag_batch unpooled{{5, 5, 3}, {}, {}};
  host_table_gradient gradient;
  group_memory to;
  EXPECT_EQ(grouping_of(grouped(gradient, to, 6, {{pooling::sum, plain}}, grad)),
            (grouping{{3, {{0, 1, 1.0F}}}, {5, {{0, 1, 1.0F}, {0, 1, 1.0F}, {0, 2, 1.0F}}}}));
  EXPECT_EQ(grouping_of(grouped(gradient, to, 6, {{pooling::mean, plain}}, grad)),
            (grouping{{3, {{0, 1, 1.0F / 3}}}, {5, {{0, 1, 1.0F / 3}, {0, 1, 1.0F / 3}, {0, 2, 1.0F}}}}));
  EXPECT_EQ(grouping_of(grouped(gradient, to, 6, {{pooling::sum, weighted}}, grad)),
            (grouping{{3, {{0, 1, 0.0F}}}, {5, {{0, 1, 0.5F}, {0, 1, -2.0F}, {0, 2, 4.0F}}}}));
  EXPECT_EQ(grouping_of(grouped(gradient, to, 6, {{pooling::mean, unpooled}}, grad)),
            (grouping{{3, {{0, 2, 1.0F}}}, {5, {{0, 0, 1.0F}, {0, 1, 1.0F}}}}));
}

TEST(HostTableGradient, NothingIsLeftOfTheStepBefore) {
  const std::vector<float> grad(1);
  host_table_gradient gradient;
  group_memory to;
  EXPECT_EQ(grouping_of(grouped(gradient, to, 5000,
                                {{pooling::sum, {{4999, 7}, {0}, {}}}, {pooling::sum, {{7}, {0}, {}}}}, grad))
                .size(),
            2U);
  EXPECT_EQ(grouping_of(grouped(gradient, to, 10, {{pooling::sum, {{2}, {0}, {}}}}, grad)),
            (grouping{{2, {{0, 0, 1.0F}}}}));
  EXPECT_TRUE(grouping_of(grouped(gradient, to, 10, {}, grad)).empty());
  const row_gradients empty_bags = grouped(gradient, to, 10, {{pooling::mean, {{}, {0, 0, 0}, {}}}}, grad);
  EXPECT_TRUE(empty_bags.rows.empty());
  EXPECT_EQ(empty_bags.sources.size(), 1U);
}

}  // namespace
}  // namespace troupe::kernels::host_table_gradient_test
