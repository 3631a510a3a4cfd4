// Samplers and data sets for trainer functions, compared with the program's own batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::data_test {
namespace {

/// Runs `function` on `trainers` trainers, with seed 3.
template <class Function, class... More>
void run(std::uint32_t trainers, Function function, More... more) {
  test::run_with({"--seed", "3"}, trainers, function, more...);
}

using dealt = std::vector<std::vector<std::vector<std::int64_t>>>;  // rank, batch, rows

task<> deal(trainer me, std::uint64_t rows, std::size_t batch, bool shuffle, std::uint64_t epoch, dealt* into) {
  distributed_sampler::options chosen;
  chosen.shuffle = shuffle;
  for (const auto& one : me.batches(distributed_sampler(me, rows, batch, chosen).epoch(epoch)))
    into->at(me.rank()).push_back(one);
  co_return;
}

dealt deal_out(std::uint32_t trainers, std::uint64_t rows, std::size_t batch, bool shuffle, std::uint64_t epoch = 0) {
  dealt all(trainers);
  run(trainers, deal, rows, batch, shuffle, epoch, &all);
  return all;
}

TEST(DistributedSampler, DealsRowsInTheirOrderToAllRanksInTurn) {
  const dealt expected = {{{0, 3}, {6, 9}}, {{1, 4}, {7}}, {{2, 5}, {8}}};
  EXPECT_EQ(deal_out(3, 10, 2, false), expected);
}

TEST(DistributedSampler, GivesAllRanksAsManyBatchesOfWhichSomeAreEmpty) {
  const dealt expected = {{{0}, {2}}, {{1}, {}}};
  EXPECT_EQ(deal_out(2, 3, 1, false), expected);
}

TEST(DistributedSampler, ShufflesAllRowsAnewInEveryEpoch) {
  std::vector<std::vector<std::int64_t>> orders;
  for (const std::uint64_t epoch : {0, 1}) {
    std::vector<std::int64_t> rows;
    for (const auto& rank : deal_out(3, 100, 7, true, epoch))
      for (const auto& batch : rank) rows.insert(rows.end(), batch.begin(), batch.end());
    orders.push_back(rows);
    std::ranges::sort(rows);
    ASSERT_EQ(rows.size(), 100U);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], static_cast<std::int64_t>(i));
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(DistributedSampler, RefusesNothingToDeal) {
  EXPECT_THROW(deal_out(1, 0, 2, true), error);
  EXPECT_THROW(deal_out(1, 2, 0, true), error);
}

task<> deal_too_many(trainer me) {
  const distributed_sampler all(me, UINT64_MAX, 3);
  co_return;
}
task<> ask_beyond_the_epoch(trainer me) {
  const distributed_sampler all(me, 10, 2);
  all.rows(0, 99);
  co_return;
}

TEST(DistributedSampler, NamesWhatIsBeyondItsLimits) {
  EXPECT_EQ(test::error_of(1, deal_too_many),
            "trainer 0, step 0: distributed_sampler of 18446744073709551615 rows in batches of 3: both must be at most "
            "9223372036854775807");
  EXPECT_EQ(test::error_of(1, ask_beyond_the_epoch),
            "trainer 0, step 0: distributed_sampler: batch 99 of an epoch, which has the batches 0 to 4");
}

task<> ask_for_a_batch_beyond_memory(trainer me) {
  const std::uint64_t many = std::uint64_t{1} << 62;
  const distributed_sampler all(me, many, many);
  all.rows(0, 0);
  co_return;
}

TEST(DistributedSampler, NamesABatchThatNoMemoryHolds) {
  const std::string text = test::error_of(1, ask_for_a_batch_beyond_memory);
  EXPECT_NE(
      text.find("distributed_sampler: the numbers of a batch of 4611686018427387904 rows would take 17179869184.0 "
                "GiB, and "),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("of memory are available; try a smaller batch_size"), std::string::npos) << text;
}

struct seen {
  std::vector<data_batch> batches = {};
  std::vector<data_batch> tests = {};
  std::size_t features = 0;
  std::size_t tables = 0;
  std::uint64_t test_rows = 0;
};

task<> read_adult(trainer me, std::vector<seen>* into) {
  const data_set adult(me, {{"data", "adult"}, {"batch-size", "100"}});
  seen& mine = into->at(me.rank());
  for (data_batch one : me.batches(adult.epoch(1))) mine.batches.push_back(std::move(one));
  mine.tests = adult.test_batches(1000);
  mine.features = adult.dense_features();
  mine.tables = adult.table_rows().size();
  mine.test_rows = adult.test_rows();
  co_return;
}

class DataSetBatches : public testing::TestWithParam<const char*> {};

TEST_P(DataSetBatches, AreThoseOfTheProgram) {
  std::vector<seen> all(2);
  test::run_with({"--seed", "3", "--prepare", GetParam()}, 2, read_adult, &all);
  const auto job = model::parse_job({{"data", "adult"}, {"batch-size", "100"}, {"seed", "3"}}).value();
  const auto data = model::open_dataset(job).value();
  std::size_t tests = 0;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const seen& mine = all[rank];
    EXPECT_EQ(mine.features, data->spec().dense_features);
    EXPECT_EQ(mine.tables, data->spec().tables.size());
    ASSERT_EQ(mine.batches.size(), data->steps_per_epoch());
    for (std::size_t step = 0; step < mine.batches.size(); ++step) {
      const model::batch expected = data->train_batch(data->steps_per_epoch() + step, rank).value();
      const data_batch& found = mine.batches[step];
      ASSERT_EQ(found.size, expected.size);
      if (found.size == 0) continue;
      EXPECT_TRUE(std::ranges::equal(found.dense.as<float>(), expected.dense));
      EXPECT_TRUE(std::ranges::equal(found.values.as<float>(), expected.values));
      ASSERT_EQ(found.tables.size(), expected.tables.size());
      for (std::size_t t = 0; t < found.tables.size(); ++t) {
        EXPECT_EQ(found.tables[t].indices, expected.tables[t].indices);
        EXPECT_EQ(found.tables[t].offsets, expected.tables[t].offsets);
      }
    }
    for (const data_batch& one : mine.tests) tests += one.size;
  }
  EXPECT_EQ(tests, data->test_rows());
  EXPECT_EQ(all[0].test_rows, data->test_rows());
}

INSTANTIATE_TEST_SUITE_P(Threads, DataSetBatches, testing::Values("0", "3"));

std::string refusal(const std::vector<std::pair<std::string, std::string>>& settings) {
  return test::input_error_of([&] {
    run(
        1,
        [](trainer me, std::vector<std::pair<std::string, std::string>> chosen) -> task<> {
          const data_set data(me, chosen);
          co_return;
        },
        settings);
  });
}

TEST(DataSet, NamesWhatIsWrong) {
  EXPECT_NE(refusal({{"data", "nothing"}}).find("data nothing: "), std::string::npos) << refusal({{"data", "nothing"}});
  EXPECT_NE(refusal({{"data", "criteo:/no/such/file"}}).find("/no/such/file"), std::string::npos);
  EXPECT_NE(refusal({{"seed", "3"}}).find("seed is the run's"), std::string::npos);
}

}  // namespace
}  // namespace troupe::data_test
