// Goal: a streamed data set distributes its rows as documented, bitwise, for requests in any order. Method: a csv file
// whose feature is the row's number, and the documented order, recomputed.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "model/files/category_hash.hpp"
#include "model/files/file_rows.hpp"
#include "model/random.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::streamed_test {
namespace {

std::string text_of(std::uint64_t rows) {
  std::string text = "y,row,c,m\n";
  for (std::uint64_t row = 0; row < rows; ++row) {
    text += fmt::format("{},{},c{},{}\n", row % 3 == 0 ? 1 : 0, row, row % 100,
                        row % 4 == 0   ? ""
                        : row % 4 == 1 ? "a"
                                       : "b|c");
  }
  return text;
}

const std::string columns = R"([{"name": "y", "kind": "label"}, {"name": "row", "kind": "numeric"},
                               {"name": "c", "kind": "categorical"}, {"name": "m", "kind": "multi"}])";

std::vector<setting> settings_for(const std::string& path, const std::vector<setting>& more = {}) {
  std::vector<setting> settings{{"data", "csv:" + path}, {"columns", columns}, {"rows", "1000"}, {"seed", "9"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

using numbers = std::vector<std::uint64_t>;

numbers rows_in(const result<batch>& from) {
  numbers rows;
  for (const float row : from.value().dense) rows.push_back(static_cast<std::uint64_t>(row));
  return rows;
}

// The training rows of an epoch in the documented order.
numbers epoch_order(std::uint64_t rows, std::uint64_t window_rows, double test_share, std::uint64_t epoch) {
  numbers order;
  const auto is_kept = row_selection::kept(test_share);
  for (std::uint64_t window = 0; window * window_rows < rows; ++window) {
    numbers in_window;
    for (std::uint64_t row = window * window_rows; row < std::min(rows, (window + 1) * window_rows); ++row) {
      if (is_kept(row)) in_window.push_back(row);
    }
    const std::uint64_t key = random_key(9, random_stream::window_shuffle, epoch, window);
    for (std::uint64_t i = 0; i < in_window.size(); ++i) order.push_back(in_window[shuffled(in_window.size(), key, i)]);
  }
  return order;
}

struct deal {
  std::uint64_t rows;
  std::uint64_t window_rows;
  std::uint64_t ranks;
  std::uint64_t batch_size;
  double test_share;
};

void expect_deal(const std::string& path, const deal& how) {
  const auto data = opened(settings_for(path, {{"shuffle-rows", std::to_string(how.window_rows)},
                                               {"trainers", std::to_string(how.ranks)},
                                               {"batch-size", std::to_string(how.batch_size)},
                                               {"test-fraction", fmt::format("{}", how.test_share)}}));
  ASSERT_NE(data, nullptr);
  const category_hash categories(1000);
  for (const std::uint64_t epoch : {0, 1, 7}) {
    const numbers order = epoch_order(how.rows, how.window_rows, how.test_share, epoch);
    const std::uint64_t of_rank_0 = (order.size() + how.ranks - 1) / how.ranks;
    const std::uint64_t steps = (of_rank_0 + how.batch_size - 1) / how.batch_size;
    ASSERT_EQ(data->steps_per_epoch(), steps);
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (std::uint64_t rank = 0; rank < how.ranks; ++rank) {
        numbers expected;
        for (std::uint64_t i = step * how.batch_size; i < (step + 1) * how.batch_size; ++i) {
          if (rank + i * how.ranks < order.size()) expected.push_back(order[rank + i * how.ranks]);
        }
        const auto taken = data->train_batch(epoch * steps + step, static_cast<std::uint32_t>(rank));
        ASSERT_EQ(rows_in(taken), expected) << "epoch " << epoch << ", step " << step << ", rank " << rank;
        ASSERT_EQ(check_batch(data->spec(), *taken).value_or(""), "");
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(taken->values[i], expected[i] % 3 == 0 ? 1 : 0);
          ASSERT_EQ(taken->tables[0].indices[i], categories.row_of(fmt::format("c{}", expected[i] % 100)));
        }
      }
    }
  }
}

TEST(Streamed, RowsAreDealtInTheDocumentedOrder) {
  const std::string text = text_of(1000);
  for (const std::string& bytes : {text, gzip(text)}) {
    const temporary_file file(bytes);
    expect_deal(file.path(), {1000, 65536, 2, 64, 0});
    expect_deal(file.path(), {1000, 100, 3, 10, 0});
    expect_deal(file.path(), {1000, 1, 2, 17, 0});
    expect_deal(file.path(), {1000, 77, 1, 1000, 0});
    expect_deal(file.path(), {1000, 64, 5, 32, 0.25});
    expect_deal(file.path(), {1000, 3, 2, 100, 0.9});
  }
}

// Blocks of at least 16,384 rows: six blocks.
TEST(Streamed, FilesOfManyBlocksAreDealtInTheSameOrder) {
  const std::string text = text_of(90'000);
  for (const std::string& bytes : {text, zstd(text)}) {
    const temporary_file file(bytes);
    expect_deal(file.path(), {90'000, 5000, 2, 1000, 0});
    expect_deal(file.path(), {90'000, 20'000, 3, 700, 0.1});
  }
}

TEST(Streamed, ABatchDoesNotDependOnWhoAskedBefore) {
  const temporary_file file(gzip(text_of(90'000)));
  const auto settings = settings_for(file.path(), {{"shuffle-rows", "3000"}, {"batch-size", "500"}, {"trainers", "4"}});
  const auto data = opened(settings);
  std::vector<numbers> expected;
  const std::uint64_t steps = data->steps_per_epoch() * 2;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) expected.push_back(rows_in(data->train_batch(step, rank)));
  }
  std::vector<std::jthread> threads;
  for (std::uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      random_sequence random(t);
      for (std::uint64_t i = 0; i < steps; ++i) {
        // The ranks in order, two of them late, and two threads with random requests.
        const std::uint64_t step = t < 4 ? (i + steps - t / 2 * 30) % steps : random.below(steps);
        const std::uint32_t rank = t < 4 ? t : static_cast<std::uint32_t>(random.below(4));
        ASSERT_EQ(rows_in(data->train_batch(step, rank)), expected[step * 4 + rank]);
      }
    });
  }
}

TEST(Streamed, EpochsAndSeedsDifferInOrderOnly) {
  const temporary_file file(text_of(600));
  const auto data = opened(settings_for(file.path(), {{"trainers", "1"}, {"batch-size", "600"}}));
  auto first = rows_in(data->train_batch(0, 0));
  auto second = rows_in(data->train_batch(1, 0));
  auto other = rows_in(
      opened(settings_for(file.path(), {{"trainers", "1"}, {"batch-size", "600"}, {"seed", "2"}}))->train_batch(0, 0));
  EXPECT_NE(first, second);
  EXPECT_NE(first, other);
  std::ranges::sort(first);
  std::ranges::sort(second);
  std::ranges::sort(other);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, other);
}

TEST(Streamed, TestRowsAreThoseThatTrainingLeavesOut) {
  const temporary_file file(text_of(40'000));
  const std::vector<setting> share{{"test-fraction", "0.2"}, {"trainers", "1"}, {"batch-size", "32000"}};
  auto both = settings_for(file.path(), share);
  const auto data = opened(both);
  numbers all;
  for (std::uint64_t step = 0; step < data->steps_per_epoch(); ++step) {
    const auto rows = rows_in(data->train_batch(step, 0));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  const auto test = rows_in(data->test_batch(0, data->test_rows()));
  EXPECT_NEAR(static_cast<double>(test.size()), 8000, 300);
  EXPECT_TRUE(std::ranges::is_sorted(test));
  all.insert(all.end(), test.begin(), test.end());
  std::ranges::sort(all);
  numbers expected(40'000);
  for (std::uint64_t row = 0; row < expected.size(); ++row) expected[row] = row;
  EXPECT_EQ(all, expected);
  // The test rows are the same for any split and any seed.
  const auto part = rows_in(data->test_batch(3000, 4000));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), test.begin() + 3000));
  both.emplace_back("seed", "77");
  EXPECT_EQ(rows_in(opened(both)->test_batch(0, test.size())), test);
}

TEST(Streamed, ATestFileHasItsRowsInOrder) {
  const temporary_file train(text_of(300));
  const temporary_file test(gzip(text_of(50)));
  const auto data = opened(settings_for(train.path(), {{"test-file", test.path()}}));
  EXPECT_EQ(data->test_rows(), 50U);
  const auto rows = rows_in(data->test_batch(10, 30));
  for (std::uint64_t i = 0; i < 30; ++i) EXPECT_EQ(rows.at(i), 10 + i);
}

TEST(Streamed, JobsOfOneProcessShareAFile) {
  const temporary_file file(text_of(600));
  const auto settings = settings_for(file.path());
  const auto one = opened(settings);
  EXPECT_EQ(opened(settings), one);
  file.write(text_of(700));
  EXPECT_NE(opened(settings), one);
}

TEST(Streamed, SizesThatDoNotFitTheFileAreRefused) {
  const temporary_file file(text_of(20));
  const auto refused = [&file](const std::vector<setting>& more) {
    return refusal(open_with(settings_for(file.path(), more)));
  };
  EXPECT_EQ(refused({{"batch-size", "21"}}),
            "--batch-size 21: must be at most 20, the training rows of " + file.path());
  EXPECT_EQ(refused({{"trainers", "21"}, {"batch-size", "1"}}),
            "--trainers 21: " + file.path() +
                " has 20 training rows: must be at least one for each trainer; use fewer trainers");
  EXPECT_EQ(
      refused({{"test-fraction", "0.001"}}),
      "--test-fraction 0.001: leaves 20 training rows and 0 test rows of " + file.path() + "; must leave some of both");
  EXPECT_EQ(
      refused({{"test-fraction", "0.999"}}),
      "--test-fraction 0.999: leaves 0 training rows and 20 test rows of " + file.path() + "; must leave some of both");
  EXPECT_EQ(opened(settings_for(file.path(), {{"trainers", "20"}, {"batch-size", "20"}}))->steps_per_epoch(), 1U);
}

TEST(Streamed, ABadRowFailsTheBatchesOfItsBlock) {
  std::string text = text_of(60'000);
  text.replace(text.find(",50000,"), 7, ",5000x,");
  for (const std::string& bytes : {text, gzip(text)}) {
    const temporary_file file(bytes);
    const auto data =
        opened(settings_for(file.path(), {{"shuffle-rows", "1000"}, {"trainers", "1"}, {"batch-size", "1000"}}));
    EXPECT_TRUE(data->train_batch(10, 0).has_value());
    EXPECT_EQ(refusal(data->train_batch(50, 0)),
              file.path() +
                  " line 50002: column 2 (row): 5000x: must be a finite number, without blanks around it, or "
                  "empty");
    EXPECT_TRUE(data->train_batch(0, 0).has_value());
  }
}

TEST(Streamed, AFileThatChangesUnderTheRunIsAFault) {
  const std::string text = text_of(100'000);
  const temporary_file file(text);
  const auto data =
      opened(settings_for(file.path(), {{"shuffle-rows", "1000"}, {"trainers", "1"}, {"batch-size", "1000"}}));
  EXPECT_TRUE(data->train_batch(0, 0).has_value());
  file.write(text.substr(0, 1000));
  EXPECT_NE(refusal(data->train_batch(99, 0)).find("changed since the run opened it"), std::string::npos);
}

}  // namespace
}  // namespace troupe::model::streamed_test
