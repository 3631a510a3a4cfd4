#include "model/adult.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace troupe::model::adult_test {
namespace {

const adult_data& real_data() {
  static const auto data = read_adult();
  EXPECT_TRUE(data.has_value()) << (data ? "" : data.error().message);
  return *data;
}

// The expected numbers were computed from the two files independently (with Python's csv and math modules).
TEST(Adult, HasAllRowsAndLabels) {
  const auto& data = real_data();
  const auto is_rich = [](const adult_row& row) { return row.above_50k; };
  EXPECT_EQ(data.train.size(), 32561U);
  EXPECT_EQ(std::ranges::count_if(data.train, is_rich), 7841);
  EXPECT_EQ(data.test.size(), 16281U);
  EXPECT_EQ(std::ranges::count_if(data.test, is_rich), 3846);
}

TEST(Adult, VocabulariesAreInOrderOfAppearance) {
  const auto& data = real_data();
  EXPECT_EQ(data.table_rows, (std::array<std::int64_t, 8>{10, 17, 8, 16, 7, 6, 3, 43}));
  EXPECT_EQ(data.train[0].categories, (std::array<std::int32_t, 8>{1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(data.train[4].categories, (std::array<std::int32_t, 8>{3, 1, 2, 4, 3, 2, 2, 2}));
  EXPECT_EQ(data.train.back().categories, (std::array<std::int32_t, 8>{7, 2, 2, 2, 3, 1, 2, 1}));
  EXPECT_EQ(data.test.front().categories, (std::array<std::int32_t, 8>{3, 3, 1, 10, 4, 2, 1, 1}));
  EXPECT_EQ(data.test.back().categories, (std::array<std::int32_t, 8>{7, 1, 2, 2, 2, 1, 1, 1}));
}

TEST(Adult, NumbersAreLogarithmsStandardisedByTheTrainingRows) {
  const auto& data = real_data();
  for (std::size_t column = 0; column < adult_dense_features; ++column) {
    double sum = 0;
    double squares = 0;
    for (const auto& row : data.train) {
      sum += row.numbers[column];
      squares += static_cast<double>(row.numbers[column]) * row.numbers[column];
    }
    EXPECT_NEAR(sum / 32561, 0, 1e-5) << column;
    EXPECT_NEAR(squares / 32561, 1, 1e-5) << column;
  }
  const auto expect_numbers = [](const adult_row& row, const std::array<double, 6>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(row.numbers[i], expected[i], 2e-6) << i;
  };
  expect_numbers(data.train.front(), {0.201469527, -1.15029782, 0.973481618, 2.83136958, -0.221074509, 0.124559516});
  expect_numbers(data.train.back(), {1.00544586, 0.93017493, -0.255362928, 3.61871092, -0.221074509, 0.124559516});
  expect_numbers(data.test.front(), {-1.02924809, 0.551836707, -1.07031497, -0.299271152, -0.221074509, 0.124559516});
}

// -- other text ------------------------------------------------------------------------------------------------------

const std::string sound_line = "39, ?, 77516, BA, 13, Single, Clerk, Own, White, Male, 2174, 0, 40, Here, <=50K\n";
const std::string other_line = "50, B, 83311, MA, 13, Single, ?, Own, Black, Female, 0, 0, 13, There, >50K\n";

// `line` with the text of one column (from 0) replaced.
std::string with_column(const std::string& line, std::size_t column, const std::string& text) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < column; ++i) begin = line.find(',', begin) + 2;
  const std::size_t end = std::min(line.find(',', begin), line.size() - 1);
  return line.substr(0, begin) + text + line.substr(end);
}

std::string refusal(const std::string& train, const std::string& test) {
  const auto data = parse_adult(train, test);
  EXPECT_FALSE(data.has_value());
  return data ? "" : data.error().message;
}

TEST(Adult, ValuesNotSeenInTrainingAreRow0) {
  const auto data = parse_adult(sound_line + other_line, with_column(with_column(sound_line, 1, "C"), 3, "MA"));
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->table_rows, (std::array<std::int64_t, 8>{3, 3, 2, 3, 2, 3, 3, 3}));
  EXPECT_EQ(data->train[1].categories, (std::array<std::int32_t, 8>{2, 2, 1, 2, 1, 2, 2, 2}));
  EXPECT_EQ(data->test[0].categories, (std::array<std::int32_t, 8>{0, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(data->train[1].above_50k);
  EXPECT_FALSE(data->test[0].above_50k);
}

TEST(Adult, AColumnThatNeverChangesBecomes0) {
  const auto data = parse_adult(sound_line + other_line, sound_line);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->train[0].numbers[2], 0.0F);
  EXPECT_EQ(data->train[1].numbers[2], 0.0F);
  // Two different values lie one deviation below and above their mean.
  EXPECT_NEAR(data->train[0].numbers[0], -1, 1e-5);
  EXPECT_NEAR(data->train[1].numbers[0], 1, 1e-5);
}

TEST(Adult, BlankLinesCarriageReturnsAndAMissingLastNewlineAreFine) {
  std::string crlf = sound_line.substr(0, sound_line.size() - 1);
  crlf += "\r\n";
  const auto data = parse_adult(crlf + "\n" + other_line, sound_line.substr(0, sound_line.size() - 1));
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->train.size(), 2U);
  EXPECT_EQ(data->test.size(), 1U);
}

TEST(Adult, MalformedContentIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(sound_line + with_column(sound_line, 0, "old"), sound_line),
            "adult.data line 2, column 1 (age): old: must be a whole number between 0 and 4294967295");
  EXPECT_EQ(refusal(sound_line, sound_line + "\n" + with_column(sound_line, 10, "-1")),
            "adult.test line 3, column 11 (capital-gain): -1: must be a whole number between 0 and 4294967295");
  EXPECT_EQ(refusal(with_column(sound_line, 14, "50K"), sound_line),
            "adult.data line 1, column 15 (label): 50K: must be <=50K or >50K");
  EXPECT_EQ(refusal(with_column(sound_line, 1, ""), sound_line),
            "adult.data line 1, column 2 (workclass): '': must be a name, or ? if it is unknown");
  EXPECT_EQ(refusal(sound_line + "39, B\n", sound_line),
            "adult.data line 2: 2 columns in '39, B': must be 15, with commas between them");
  EXPECT_EQ(refusal(sound_line, ""), "adult.test: no rows: must have at least one");
  EXPECT_EQ(refusal("\n\n", sound_line), "adult.data: no rows: must have at least one");
}

// -- the data set ----------------------------------------------------------------------------------------------------

std::shared_ptr<const dataset> opened(std::vector<setting> settings = {}) {
  const auto job = parse_job(settings);
  EXPECT_TRUE(job.has_value()) << (job ? "" : job.error().message);
  return *open_dataset(*job);
}

TEST(Adult, Has8TablesAnd6Numbers) {
  const auto data = opened({{"dim", "5"}});
  ASSERT_EQ(data->spec().tables.size(), 8U);
  for (std::size_t t = 0; t < 8; ++t) {
    EXPECT_EQ(data->spec().tables[t], (table_spec{real_data().table_rows[t], 5, kernels::pooling::sum, false}));
  }
  EXPECT_EQ(data->spec().dense_features, 6U);
  EXPECT_EQ(data->spec().outputs, 1U);
  EXPECT_EQ(opened({{"loss", "cross-entropy"}})->spec().outputs, 2U);
  EXPECT_EQ(opened({{"loss", "mse"}})->spec().outputs, 1U);
  // 32561 rows: rank 0 of 2 has 16281, in batches of 128.
  EXPECT_EQ(data->steps_per_epoch(), 128U);
  EXPECT_EQ(data->test_rows(), 16281U);
}

TEST(Adult, AnEpochHasEveryRowOnce) {
  const auto data = opened({{"trainers", "3"}, {"batch-size", "1000"}});
  std::size_t samples = 0;
  double labels = 0;
  double ages = 0;
  for (std::uint64_t step = 0; step < data->steps_per_epoch(); ++step) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const auto taken = data->train_batch(step, rank).value();
      samples += taken.size;
      for (const float value : taken.values) labels += value;
      for (std::size_t i = 0; i < taken.size; ++i) ages += taken.dense[i * 6];
    }
  }
  EXPECT_EQ(samples, 32561U);
  EXPECT_EQ(labels, 7841);
  EXPECT_NEAR(ages, 0, 0.1);
  EXPECT_NE(data->train_batch(0, 0).value().dense, data->train_batch(data->steps_per_epoch(), 0).value().dense);
}

TEST(Adult, TestBatchesAreTheTestRowsInOrder) {
  const auto taken = opened({{"loss", "cross-entropy"}})->test_batch(16279, 2).value();
  ASSERT_EQ(taken.size, 2U);
  const auto& last = real_data().test.back();
  for (std::size_t t = 0; t < 8; ++t) {
    EXPECT_EQ(taken.tables[t].indices[1], last.categories[t]);
    EXPECT_EQ(taken.tables[t].offsets, (std::vector<std::int64_t>{0, 1}));
  }
  EXPECT_EQ(taken.dense[6], last.numbers[0]);
  EXPECT_EQ(taken.classes[1], last.above_50k ? 1 : 0);
  EXPECT_TRUE(taken.values.empty());
}

}  // namespace
}  // namespace troupe::model::adult_test
