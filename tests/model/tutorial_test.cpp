#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::model::tutorial_test {
namespace {

std::shared_ptr<const dataset> opened(const std::string& seed = "1", const std::string& loss = "cross-entropy") {
  return *open_dataset(*parse_job({{"data", "tutorial"}, {"seed", seed}, {"loss", loss}}));
}

TEST(Tutorial, HasTheTutorialsSizes) {
  const auto data = opened();
  const std::vector<table_spec> tables{{100, 16, kernels::pooling::sum, false, 5.5}};
  EXPECT_EQ(data->spec().tables, tables);
  EXPECT_EQ(data->spec().dense_features, 0U);
  EXPECT_EQ(data->spec().outputs, 8U);
  EXPECT_EQ(data->steps_per_epoch(), 10U);
  EXPECT_EQ(data->test_rows(), 0U);
  EXPECT_EQ(data->test_batch(0, 0).value().size, 0U);
}

// 20 to 50 indices in bags of 1 to 10, the last one truncated; all values occur, about equally often.
TEST(Tutorial, DrawsWhatTheTutorialDraws) {
  const auto data = opened();
  std::map<std::size_t, int> counts;
  std::map<std::int64_t, int> lengths;
  std::map<std::int64_t, int> rows;
  std::map<std::int64_t, int> classes;
  constexpr int batches = 20000;
  for (int step = 0; step < batches; ++step) {
    const auto drawn = data->train_batch(static_cast<std::uint64_t>(step), 1).value();
    const auto& bags = drawn.tables.at(0);
    ASSERT_EQ(bags.offsets.size(), drawn.size);
    ASSERT_EQ(drawn.classes.size(), drawn.size);
    ++counts[bags.indices.size()];
    for (std::size_t b = 0; b + 1 < drawn.size; ++b) ++lengths[bags.offsets[b + 1] - bags.offsets[b]];
    ASSERT_EQ(bags.offsets[0], 0);
    const auto last = static_cast<std::int64_t>(bags.indices.size()) - bags.offsets.back();
    ASSERT_TRUE(last >= 1 && last <= 10);
    for (const auto row : bags.indices) ++rows[row];
    for (const auto c : drawn.classes) ++classes[c];
  }
  ASSERT_EQ(counts.size(), 31U);
  EXPECT_EQ(counts.begin()->first, 20U);
  EXPECT_EQ(counts.rbegin()->first, 50U);
  for (const auto& [count, times] : counts) EXPECT_NEAR(times, batches / 31.0, 130) << count;
  ASSERT_EQ(lengths.size(), 10U);
  EXPECT_EQ(lengths.begin()->first, 1);
  ASSERT_EQ(rows.size(), 100U);
  EXPECT_EQ(rows.begin()->first, 0);
  for (const auto& [row, times] : rows) EXPECT_NEAR(times, batches * 0.35, batches * 0.35 * 0.06) << row;
  ASSERT_EQ(classes.size(), 8U);
  EXPECT_EQ(classes.begin()->first, 0);
}

TEST(Tutorial, ABatchDependsOnSeedStepAndRankAlone) {
  const auto data = opened();
  const auto indices_of = [](const dataset& from, std::uint64_t step, std::uint32_t rank) {
    return from.train_batch(step, rank).value().tables.at(0).indices;
  };
  EXPECT_EQ(indices_of(*data, 3, 1), indices_of(*opened(), 3, 1));
  std::set<std::vector<std::int64_t>> all;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) all.insert(indices_of(*data, step, rank));
  }
  all.insert(indices_of(*opened("2"), 0, 0));
  EXPECT_EQ(all.size(), 4001U);
}

TEST(Tutorial, MseTakesTheClassNumberAsValue) {
  const auto classes = opened()->train_batch(5, 0).value();
  const auto data = opened("1", "mse");
  EXPECT_EQ(data->spec().outputs, 1U);
  const auto values = data->train_batch(5, 0).value();
  EXPECT_TRUE(values.classes.empty());
  ASSERT_EQ(values.values.size(), classes.classes.size());
  for (std::size_t i = 0; i < classes.size; ++i) EXPECT_EQ(values.values[i], static_cast<float>(classes.classes[i]));
}

}  // namespace
}  // namespace troupe::model::tutorial_test
