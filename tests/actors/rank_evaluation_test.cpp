// A rank's evaluation alone: which test rows it uses, and what it computes from outputs given by the test.

#include "actors/trainer/rank_evaluation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <vector>

#include "actors/common/failure.hpp"
#include "actors/master/run_figures.hpp"

namespace troupe::actors::rank_evaluation_test {
namespace {

TEST(TestShare, TheRanksGoThroughAllRowsTogetherAndNoneTwice) {
  for (const std::uint64_t rows : {0ULL, 1ULL, 1023ULL, 1024ULL, 1025ULL, 5000ULL, 7168ULL}) {
    for (const std::uint32_t ranks : {1U, 2U, 3U}) {
      std::vector<int> times(rows);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        test_share mine(rank, ranks, rows);
        mine.begin();
        while (const auto chunk = mine.next()) {
          EXPECT_EQ(chunk->first / 1024 % ranks, rank);
          EXPECT_LE(chunk->count, 1024U);
          ASSERT_LE(chunk->first + chunk->count, rows);
          for (std::uint64_t row = chunk->first; row < chunk->first + chunk->count; ++row) ++times[row];
        }
        EXPECT_FALSE(mine.next());
      }
      EXPECT_EQ(times, std::vector<int>(rows, 1)) << rows << " rows, " << ranks << " ranks";
    }
  }
}

/// Test rows with one number each: the row's index.
class numbered_rows final : public model::dataset {
 public:
  explicit numbered_rows(std::uint64_t rows) : rows_(rows) { spec_.outputs = 1; }

  const model::data_spec& spec() const override { return spec_; }
  model::epoch_plan epochs() const override { return model::epoch_plan(); }
  result<model::batch> train_batch(std::uint64_t /*step*/, std::uint32_t /*rank*/) const override {
    return model::batch{};
  }
  std::uint64_t test_rows() const override { return rows_; }
  result<model::batch> test_batch(std::uint64_t first, std::size_t count) const override {
    model::batch rows;
    rows.size = count;
    for (std::size_t i = 0; i < count; ++i) rows.values.push_back(static_cast<float>(first + i));
    return rows;
  }

 private:
  model::data_spec spec_;
  std::uint64_t rows_;
};

/// A job of `trainers` trainers with the loss mse, and the mean absolute error as "mae".
model::job some_job(std::uint32_t trainers) {
  model::job what;
  what.trainers = trainers;
  what.loss = model::loss_kind::mse;
  what.metrics = {std::make_shared<const nn::own_metric>(nn::own_metric{
      "mae",
      nn::loss_form::values,
      {.add = [](const nn::metric_sample& row,
                 std::span<double> sums) { sums[0] += std::abs(double{row.outputs[0]} - double{row.targets[0]}); },
       .result = [](std::span<const double> sums,
                    std::uint64_t rows) { return sums[0] / static_cast<double>(rows); }}})};
  return what;
}

caf::expected<rank_evaluation::context> without_lookups(result<model::batch>&& rows) {
  if (!rows) return make_failure(errc::bad_input, rows.error().message);
  rank_evaluation::context made;
  made.samples = std::make_shared<const model::batch>(std::move(*rows));
  return made;
}

/// Outputs that are off by a third of the row's number.
std::vector<float> outputs_for(const model::batch& rows) {
  std::vector<float> outputs;
  for (const float target : rows.values) outputs.push_back(target + target / 3);
  return outputs;
}

msg::evaluation evaluated(rank_evaluation& mine) {
  mine.begin();
  for (;;) {
    const auto has_rows = mine.take_next(without_lookups);
    EXPECT_TRUE(has_rows);
    if (!has_rows || !*has_rows) return mine.report();
    mine.score(outputs_for(mine.samples()).data());
  }
}

epoch_summary summary_of(std::uint64_t rows, std::uint32_t ranks) {
  const numbered_rows data(rows);
  const model::job what = some_job(ranks);
  epoch_totals totals(ranks, what.loss, what.metrics);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    rank_evaluation mine(rank, what, data);
    msg::evaluation told = evaluated(mine);
    EXPECT_EQ(told.own.at(0).rows, 2U) << "a sum of positive shares and one of negative ones";
    told.rank = rank;
    totals.add(std::move(told));
    msg::epoch_report report;
    report.rank = rank;
    report.samples = 1;
    report.losses = msg::tensor::own(1, 1, std::vector<double>{1});
    report.evaluates = true;
    totals.add(std::move(report));
  }
  return totals.summary();
}

TEST(RankEvaluation, MetricsHaveTheSameBitsForAnyNumberOfRanks) {
  constexpr std::uint64_t rows = 3 * 1024 + 5;  // 4 chunks; the last one is small
  const auto alone = summary_of(rows, 1).figures.own.value_of("mae");
  ASSERT_TRUE(alone);
  EXPECT_NEAR(*alone, (rows - 1) / 2.0 / 3, 1e-3) << "a third of the mean of 0, 1, ..., rows - 1";
  for (const std::uint32_t ranks : {2U, 3U, 5U}) {
    const auto value = summary_of(rows, ranks).figures.own.value_of("mae");
    ASSERT_TRUE(value);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(*value), std::bit_cast<std::uint64_t>(*alone)) << ranks << " ranks";
  }
}

TEST(RankEvaluation, ReportsTheSumsOfOneEvaluation) {
  const numbered_rows data(3);
  const model::job what = some_job(1);
  rank_evaluation mine(0, what, data);
  const msg::evaluation first = evaluated(mine);
  const msg::evaluation second = evaluated(mine);
  for (const msg::evaluation* told : {&first, &second}) {
    EXPECT_EQ(told->tested, 3U);
    EXPECT_NEAR(told->loss_sum, (0 + 1 + 4) / 9.0, 1e-6);
    EXPECT_EQ(told->rows, 0U) << "no classes";
  }
  EXPECT_TRUE(std::ranges::equal(first.own.at(0).as<std::int64_t>(), second.own.at(0).as<std::int64_t>()));
}

TEST(RankEvaluation, OfAJobWithoutMetricsSendsNoSums) {
  const numbered_rows data(3);
  model::job what = some_job(1);
  what.metrics.clear();
  rank_evaluation mine(0, what, data);
  EXPECT_TRUE(evaluated(mine).own.empty());
}

TEST(RankEvaluation, RowsThatCannotBePreparedAreAnError) {
  const numbered_rows data(3);
  const model::job what = some_job(1);
  rank_evaluation mine(0, what, data);
  mine.begin();
  const auto refuse = [](result<model::batch>&& /*rows*/) -> caf::expected<rank_evaluation::context> {
    return make_failure(errc::bad_index, "no such row");
  };
  const auto taken = mine.take_next(refuse);
  ASSERT_FALSE(taken);
  EXPECT_TRUE(taken.error() == errc::bad_index);
}

}  // namespace
}  // namespace troupe::actors::rank_evaluation_test
