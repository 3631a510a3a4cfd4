#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::model::synthetic_test {
namespace {

std::shared_ptr<const dataset> opened(std::vector<setting> settings = {}) {
  settings.insert(settings.begin(), {"data", "synthetic"});
  const auto job = parse_job(settings);
  EXPECT_TRUE(job.has_value()) << (job ? "" : job.error().message);
  return *open_dataset(*job);
}

void expect_same(const batch& a, const batch& b) {
  EXPECT_EQ(a.size, b.size);
  ASSERT_EQ(a.tables.size(), b.tables.size());
  for (std::size_t t = 0; t < a.tables.size(); ++t) {
    EXPECT_EQ(a.tables[t].indices, b.tables[t].indices);
    EXPECT_EQ(a.tables[t].offsets, b.tables[t].offsets);
  }
  EXPECT_EQ(a.classes, b.classes);
  EXPECT_EQ(a.values, b.values);
}

TEST(Synthetic, HasTheSizesOfTheJob) {
  const auto data =
      opened({{"tables", "3"}, {"rows", "50"}, {"dim", "4"}, {"bag", "2"}, {"classes", "5"}, {"batch-size", "6"}});
  EXPECT_EQ(data->spec().tables, std::vector<table_spec>(3, {50, 4, kernels::pooling::sum, false, 2}));
  EXPECT_EQ(data->spec().dense_features, 0U);
  EXPECT_EQ(data->spec().outputs, 5U);
  EXPECT_EQ(data->steps_per_epoch(), 100U);
  EXPECT_EQ(data->test_rows(), 4096U);
  const auto drawn = data->train_batch(0, 0).value();
  EXPECT_EQ(drawn.size, 6U);
  for (const auto& bags : drawn.tables) {
    EXPECT_EQ(bags.indices.size(), 12U);
    EXPECT_EQ(bags.offsets, (std::vector<std::int64_t>{0, 2, 4, 6, 8, 10}));
  }
}

TEST(Synthetic, ABatchDependsOnSeedStepAndRankAlone) {
  const auto data = opened();
  expect_same(data->train_batch(7, 1).value(), opened()->train_batch(7, 1).value());
  const auto indices = data->train_batch(7, 1).value().tables[0].indices;
  EXPECT_NE(indices, data->train_batch(107, 1).value().tables[0].indices);
  EXPECT_NE(indices, data->train_batch(7, 0).value().tables[0].indices);
  EXPECT_NE(indices, opened({{"seed", "2"}})->train_batch(7, 1).value().tables[0].indices);
}

TEST(Synthetic, TestRowsDoNotDependOnHowTheyAreCut) {
  const auto data = opened({{"tables", "2"}});
  const auto whole = data->test_batch(10, 20).value();
  const auto part = data->test_batch(17, 5).value();
  for (std::size_t t = 0; t < 2; ++t) {
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(part.tables[t].indices[i], whole.tables[t].indices[70 + i]);
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(part.classes[i], whole.classes[7 + i]);
}

// Zipf over blocks of two neighbouring rows; within a block, 0.8 of the indices choose either row evenly.
TEST(Synthetic, RowsOccurAsOftenAsTheSkewSays) {
  const auto data = opened({{"rows", "20"}, {"id-skew", "zipf:1.5"}, {"batch-size", "40000"}});
  std::vector<double> share(20);
  const auto drawn = data->train_batch(0, 0).value();
  for (const auto row : drawn.tables[0].indices) share.at(static_cast<std::size_t>(row)) += 1 / 400000.0;
  std::vector<double> zipf;
  double total = 0;
  for (int k = 1; k <= 20; ++k) total += zipf.emplace_back(std::pow(k, -1.5));
  for (std::size_t row = 0; row < 20; ++row) {
    EXPECT_NEAR(share[row], (0.6 * zipf[row] + 0.4 * zipf[row ^ 1]) / total, 0.005) << row;
  }
}

TEST(Synthetic, UniformRowsAreEquallyFrequent) {
  const auto data = opened({{"rows", "10"}, {"classes", "3"}, {"batch-size", "30000"}});
  std::vector<int> count(10);
  const auto drawn = data->train_batch(0, 0).value();
  for (const auto row : drawn.tables[0].indices) ++count.at(static_cast<std::size_t>(row));
  // 30000 expected, deviation 164; samples' classes add to it.
  for (const int times : count) EXPECT_NEAR(times, 30000, 1500);
}

TEST(Synthetic, ClassesAreAboutEquallyFrequent) {
  const auto data = opened({{"classes", "5"}, {"batch-size", "50000"}});
  std::vector<int> count(5);
  const auto drawn = data->train_batch(0, 0).value();
  for (const auto c : drawn.classes) ++count.at(static_cast<std::size_t>(c));
  for (const int times : count) EXPECT_NEAR(times, 10000, 600);
}

// Naive Bayes instead of a model: multiplies, over a sample's rows, each class's share of the row's training samples.
double naive_bayes_accuracy(const dataset& data, std::size_t rows, std::size_t classes, std::uint64_t steps) {
  const std::size_t tables = data.spec().tables.size();
  std::vector<std::vector<double>> seen(tables * rows, std::vector<double>(classes, 1));
  const auto for_each = [&](const batch& from, auto&& visit) {
    const std::size_t bag = from.tables[0].indices.size() / from.size;
    for (std::size_t s = 0; s < from.size; ++s) {
      for (std::size_t t = 0; t < tables; ++t) {
        for (std::size_t i = s * bag; i < (s + 1) * bag; ++i) {
          visit(s, t * rows + static_cast<std::size_t>(from.tables[t].indices[i]));
        }
      }
    }
  };
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto train = data.train_batch(step, 0).value();
    for_each(train, [&](std::size_t s, std::size_t row) { ++seen[row][static_cast<std::size_t>(train.classes[s])]; });
  }
  const auto test = data.test_batch(0, data.test_rows()).value();
  std::vector<std::vector<double>> odds(test.size, std::vector<double>(classes));
  for_each(test, [&](std::size_t s, std::size_t row) {
    const double total = std::accumulate(seen[row].begin(), seen[row].end(), 0.0);
    for (std::size_t c = 0; c < classes; ++c) odds[s][c] += std::log(seen[row][c] / total);
  });
  double right = 0;
  for (std::size_t s = 0; s < test.size; ++s) {
    right += std::ranges::max_element(odds[s]) - odds[s].begin() == test.classes[s] ? 1 : 0;
  }
  return right / static_cast<double>(test.size);
}

// An index belongs to the sample's class with probability 0.8 + 0.2 / 2; the majority of 10 does in 99.8 % of the
// samples (ties are half right).
TEST(Synthetic, WhatWasLearnedInTrainingHoldsForTheTestRows) {
  EXPECT_NEAR(naive_bayes_accuracy(*opened({{"rows", "1000"}}), 1000, 2, 400), 0.998, 0.004);
  EXPECT_GT(naive_bayes_accuracy(*opened({{"rows", "200"}, {"tables", "4"}, {"bag", "3"}}), 200, 2, 200), 0.99);
  EXPECT_GT(naive_bayes_accuracy(*opened({{"rows", "201"}, {"classes", "8"}}), 201, 8, 400), 0.99);
}

// The classes of a row for two seeds agree half of the time: learning one says nothing about the other.
TEST(Synthetic, EachSeedPlantsAnotherSignal) {
  std::vector<std::vector<int>> majority;
  for (const char* seed : {"1", "2"}) {
    const auto drawn = opened({{"rows", "1000"}, {"seed", seed}, {"batch-size", "20000"}})->train_batch(0, 0).value();
    std::vector<int> lead(1000);
    for (std::size_t i = 0; i < drawn.tables[0].indices.size(); ++i) {
      lead[static_cast<std::size_t>(drawn.tables[0].indices[i])] += drawn.classes[i / 10] == 1 ? 1 : -1;
    }
    majority.push_back(lead);
  }
  int agreeing = 0;
  for (std::size_t row = 0; row < 1000; ++row) agreeing += (majority[0][row] > 0) == (majority[1][row] > 0) ? 1 : 0;
  EXPECT_NEAR(agreeing, 500, 110);
}

}  // namespace
}  // namespace troupe::model::synthetic_test
