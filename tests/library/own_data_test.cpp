// Data sets that a program adds to jobs: which rank gets which rows, the same bits as the program's own data of the
// same rows, and how they appear in jobs, checkpoints and programs.

#include "nn/own_data.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "actors/common/device_advice.hpp"
#include "cluster/nodes/run_job.hpp"
#include "model/adult.hpp"
#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/resume.hpp"
#include "model/job.hpp"
#include "model/random.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/run_trainers.hpp"

namespace troupe::own_data_test {
namespace {

using model::setting;

/// The rows of Adult.
class own_adult final : public nn::own_data {
 public:
  nn::data_form form() const override {
    nn::data_form made{.dense_features = model::adult_dense_features, .classes = 2};
    for (const std::int64_t rows : adult_.table_rows) made.tables.push_back({.rows = rows});
    return made;
  }
  std::uint64_t rows() const override { return adult_.train.size(); }
  std::uint64_t test_rows() const override { return adult_.test.size(); }
  void read(std::span<const std::uint64_t> rows, bool test, nn::data_samples& into) const override {
    for (const std::uint64_t number : rows) {
      const model::adult_row& row = (test ? adult_.test : adult_.train)[number];
      into.next();
      for (std::size_t t = 0; t < row.categories.size(); ++t) into.bag(t, {row.categories[t]});
      into.dense(row.numbers);
      into.target_class(row.above_50k ? 1 : 0);
    }
  }

 private:
  model::adult_data adult_ = model::read_adult().value();
};

std::atomic<int> numbers_opened = 0;

/// Has as many rows as the argument says; row r looks up row r of a table.
class numbers final : public nn::own_data {
 public:
  explicit numbers(const std::string& rows) : rows_(std::stoull(rows)) { ++numbers_opened; }

  nn::data_form form() const override {
    return {.tables = {{.rows = static_cast<std::int64_t>(rows_), .dim = 4}}, .classes = 2};
  }
  std::uint64_t rows() const override { return rows_; }
  std::uint64_t test_rows() const override { return 10; }
  void read(std::span<const std::uint64_t> rows, bool /*test*/, nn::data_samples& into) const override {
    for (const std::uint64_t row : rows) {
      into.next();
      into.bag(0, {static_cast<std::int64_t>(row)});
      into.target_class(static_cast<std::int64_t>(row % 2));
    }
  }
  std::string digest() const override { return std::to_string(rows_) + " numbers\n"; }

 private:
  std::uint64_t rows_;
};

/// Row r has a table row twice, or once with twice the weight, and two target values.
class pairs final : public nn::own_data {
 public:
  explicit pairs(bool weighted) : weighted_(weighted) {}

  nn::data_form form() const override {
    return {.tables = {{.rows = 10, .weighted = weighted_, .indices_per_sample = weighted_ ? 1.0 : 2.0}}, .values = 2};
  }
  std::uint64_t rows() const override { return 40; }
  void read(std::span<const std::uint64_t> rows, bool /*test*/, nn::data_samples& into) const override {
    for (const std::uint64_t row : rows) {
      const auto index = static_cast<std::int64_t>(row % 10);
      into.next();
      if (weighted_) into.bag(0, {index}, {2});
      if (!weighted_) into.bag(0, {index, index});
      into.targets({static_cast<float>(row % 3), 1});
    }
  }

 private:
  bool weighted_;
};

/// Adds the data sets once in a process.
void add_all() {
  static const bool added = [] {
    nn::add_data("own-adult", [](const std::string&, std::uint64_t) { return std::make_unique<own_adult>(); });
    nn::add_data("own-numbers", [](const std::string& rows, std::uint64_t) {
      return std::make_shared<numbers>(rows.empty() ? "50" : rows);
    });
    nn::add_data("own-pairs",
                 [](const std::string& how, std::uint64_t) { return std::make_unique<pairs>(how == "weighted"); });
    return true;
  }();
  ASSERT_TRUE(added);
}

model::job job_of(const std::vector<setting>& settings) {
  auto made = model::parse_job(settings);
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(model::job());
}

std::shared_ptr<const model::dataset> opened(const std::vector<setting>& settings) {
  auto data = model::open_dataset(job_of(settings));
  EXPECT_TRUE(data) << data.error().message;
  return data.value();
}

actors::run_summary trained(const std::vector<setting>& settings) {
  auto run = nodes::run_job(job_of(settings), {}, nullptr);
  EXPECT_TRUE(run) << run.error().message;
  return run.value();
}

TEST(OwnData, TrainWithTheBitsOfTheSameRowsOfTheProgram) {
  add_all();
  const std::vector<std::vector<setting>> jobs = {
      {{"trainers", "1"}},
      {{"trainers", "3"}, {"servers", "2"}, {"batch-size", "100"}, {"loss", "cross-entropy"}},
      {{"interaction", "dot"}, {"loss", "mse"}},
      {{"pipeline", "2"}, {"stages", "0,2"}, {"micro-batches", "3"}}};
  for (std::vector<setting> settings : jobs) {
    settings.insert(settings.end(), {{"data", "adult"}, {"epochs", "1"}, {"seed", "4"}});
    std::vector<setting> own = model::to_settings(job_of(settings));
    for (auto& [name, text] : own)
      if (name == "data") text = "own-adult";
    const auto expected = trained(settings);
    const auto found = trained(own);
    EXPECT_FALSE(expected.weights_digest.empty());
    EXPECT_EQ(found.weights_digest, expected.weights_digest) << settings.front().first;
    EXPECT_EQ(found.steps, expected.steps);
    EXPECT_EQ(found.figures.loss, expected.figures.loss);
    EXPECT_EQ(found.figures.test_loss, expected.figures.test_loss);
    EXPECT_EQ(found.figures.auc, expected.figures.auc);
    EXPECT_EQ(found.figures.accuracy, expected.figures.accuracy);
  }
}

/// Returns the row numbers of a global step of `own-numbers`; expects that every bag has one.
std::vector<std::int64_t> rows_of(const model::dataset& data, std::uint64_t step, std::uint32_t rank) {
  const model::batch made = data.train_batch(step, rank).value();
  EXPECT_FALSE(model::check_batch(data.spec(), made));
  EXPECT_EQ(made.tables.at(0).indices.size(), made.size);
  return made.tables.at(0).indices;
}

TEST(OwnData, TrainersShareThePermutationOfEachEpoch) {
  add_all();
  for (const std::uint64_t trainers : {1, 2, 3}) {
    const auto data = opened(
        {{"data", "own-numbers:50"}, {"trainers", std::to_string(trainers)}, {"batch-size", "4"}, {"seed", "9"}});
    const std::uint64_t steps = data->steps_per_epoch();
    EXPECT_EQ(steps, (50 + 4 * trainers - 1) / (4 * trainers));
    for (const std::uint64_t epoch : {0, 1}) {
      const std::uint64_t key = model::random_key(9, model::random_stream::shuffle, epoch);
      std::set<std::int64_t> seen;
      for (std::uint64_t step = 0; step < steps; ++step)
        for (std::uint32_t rank = 0; rank < trainers; ++rank) {
          std::uint64_t position = step * 4 * trainers + rank;
          for (const std::int64_t row : rows_of(*data, epoch * steps + step, rank)) {
            EXPECT_EQ(row, static_cast<std::int64_t>(model::shuffled(50, key, position)));
            EXPECT_TRUE(seen.insert(row).second) << row;
            position += trainers;
          }
        }
      EXPECT_EQ(seen.size(), 50U);
    }
  }
}

TEST(OwnData, ShareEachEpochAlsoWhenTrainersJoin) {
  add_all();
  const auto data = opened({{"data", "own-numbers:50"},
                            {"batch-size", "4"},
                            {"elastic", "1:3"},
                            {"elastic-batch", "rank"},
                            {"memberships", "0:2,3:3"}});
  const model::epoch_plan plan = data->epochs();
  EXPECT_EQ(plan.steps_until(1), 3 + 3U) << "3 steps of 8 rows, and 26 rows left for steps of 12";
  std::multiset<std::int64_t> seen;
  for (std::uint64_t step = 0; step < plan.steps_until(1); ++step)
    for (std::uint32_t rank = 0; rank < plan.of(step).trainers; ++rank)
      for (const std::int64_t row : rows_of(*data, step, rank)) seen.insert(row);
  EXPECT_EQ(seen.size(), 50U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 50U);
}

TEST(OwnData, HaveTestRowsInTheirOrder) {
  add_all();
  const auto data = opened({{"data", "own-numbers"}, {"batch-size", "4"}});
  EXPECT_EQ(data->test_rows(), 10U);
  const model::batch made = data->test_batch(7, 3).value();
  EXPECT_EQ(made.tables.at(0).indices, (std::vector<std::int64_t>{7, 8, 9}));
  EXPECT_EQ(made.tables.at(0).offsets, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(made.classes, (std::vector<std::int64_t>{1, 0, 1}));
}

TEST(OwnData, HaveWeightsAndValues) {
  add_all();
  const std::vector<setting> settings = {{"loss", "mse"}, {"batch-size", "8"}, {"dim", "3"}, {"steps", "20"}};
  const auto with = [&](const char* data) {
    std::vector<setting> all = settings;
    all.emplace_back("data", data);
    return all;
  };
  const auto data = opened(with("own-pairs:weighted"));
  EXPECT_EQ(data->spec().tables, (std::vector<table_spec>{{10, 3, pooling::sum, true, 1}}));
  EXPECT_EQ(data->spec().outputs, 2U);
  EXPECT_EQ(data->test_rows(), 0U);
  const model::batch made = data->train_batch(0, 1).value();
  ASSERT_EQ(made.size, 8U);
  EXPECT_EQ(made.tables[0].weights, std::vector<float>(8, 2));
  ASSERT_EQ(made.values.size(), 16U);
  for (std::size_t i = 1; i < 16; i += 2) EXPECT_EQ(made.values[i], 1);
  // A row twice equals a row once with twice the weight, except for the order of additions.
  const double weighted = trained(with("own-pairs:weighted")).figures.loss;
  EXPECT_NEAR(weighted, trained(with("own-pairs")).figures.loss, 1e-5 * weighted);
}

TEST(OwnData, AreSettingsLikeTheOthers) {
  add_all();
  const auto job = job_of({{"data", "own-numbers:60"}});
  const auto settings = model::to_settings(job);
  EXPECT_EQ(*model::value_of(settings, "data"), "own-numbers:60");
  EXPECT_EQ(*model::value_of(settings, "batch-size"), "256");
  EXPECT_EQ(*model::value_of(settings, "dim"), "16");
  EXPECT_EQ(model::value_of(settings, "rows"), nullptr);
  EXPECT_EQ(model::parse_job(settings).value(), job);
}

TEST(OwnData, AreOpenedOnceForAllTrainersOfAProcess) {
  add_all();
  const int before = numbers_opened;
  const std::vector<setting> settings = {{"data", "own-numbers:70"}, {"batch-size", "4"}, {"trainers", "3"}};
  const auto held = opened(settings);
  const auto again = opened(settings);
  EXPECT_EQ(numbers_opened, before + 1);
  const auto other = opened({{"data", "own-numbers:71"}, {"batch-size", "4"}});
  EXPECT_EQ(numbers_opened, before + 2);
}

TEST(OwnData, MayHaveADigestThatResumedRunsMustMeet) {
  add_all();
  const std::vector<setting> settings = {{"data", "own-numbers:60"}, {"batch-size", "4"}};
  const auto data = opened(settings);
  EXPECT_EQ(data->digest().size(), 32U) << "whatever the text, it is short and in one line";
  const auto other = opened({{"data", "own-numbers:61"}, {"batch-size", "4"}});
  EXPECT_NE(other->digest(), data->digest());
  EXPECT_EQ(opened({{"data", "own-pairs"}, {"loss", "mse"}, {"batch-size", "4"}})->digest(), "");
  model::checkpoint_manifest saved;
  saved.data_digest = data->digest();
  EXPECT_EQ(model::check_resumed(saved, job_of(settings), *data, 10), std::nullopt);
  EXPECT_NE(model::check_resumed(saved, job_of(settings), *other, 10).value_or("").find("is not what it was"),
            std::string::npos);
  // The source may have moved, but it must be the same data set.
  saved.settings = model::to_settings(job_of(settings));
  const auto data_of = [&](const char* now) {
    const auto all = model::settings_with_files_of(saved, std::vector<setting>{{"data", now}});
    return *model::value_of(all, "data");
  };
  EXPECT_EQ(data_of("own-numbers:61"), "own-numbers:61");
  EXPECT_EQ(data_of("own-pairs:61"), "own-numbers:60");
}

TEST(OwnData, HaveAdviceOnDevicesAsTheSameRowsHave) {
  add_all();
  std::vector<setting> settings = model::to_settings(job_of({{"data", "adult"}}));
  const std::string expected = actors::advice_for(job_of(settings)).reason;
  for (auto& [name, text] : settings)
    if (name == "data") text = "own-adult";
  EXPECT_EQ(actors::advice_for(job_of(settings)).reason, expected);
  const auto pairs = job_of({{"data", "own-pairs"}, {"loss", "mse"}, {"batch-size", "8"}});
  EXPECT_EQ(model::numbers_per_batch(pairs, opened(model::to_settings(pairs))->spec()), 8 * 2U);
}

task<> take_rows(trainer me, std::vector<std::multiset<std::int64_t>>* into) {
  const data_set rows(me, {{"data", "own-numbers:30"}, {"batch-size", "4"}});
  EXPECT_EQ(rows.table_rows().at(0), 30);
  for (const data_batch one : me.batches(rows.epoch(0)))
    if (one.size > 0) into->at(me.rank()).insert(one.tables.at(0).indices.begin(), one.tables.at(0).indices.end());
  co_return;
}

TEST(OwnData, AreThereForProgramsToo) {
  add_all();
  std::vector<std::multiset<std::int64_t>> taken(2);
  test::run(2, take_rows, &taken);
  EXPECT_EQ(taken[0].size(), 15U);
  taken[0].merge(taken[1]);
  EXPECT_EQ(taken[0].size(), 30U);
  EXPECT_EQ(std::set<std::int64_t>(taken[0].begin(), taken[0].end()).size(), 30U);
}

}  // namespace
}  // namespace troupe::own_data_test
