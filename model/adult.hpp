// The rows of the UCI Adult data set (census income), coded for training.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/datasets.hpp"

namespace troupe::model {

/// One row; it fits a cache line, since training reads rows in random order.
struct adult_row {
  /// By categorical column: the row of its table; 0 for a value that is not in the training file.
  std::array<std::int32_t, adult_tables> categories;
  /// log1p of each numeric column, standardized by the training rows' mean and (population) deviation.
  std::array<float, adult_dense_features> numbers;
  /// Whether the income is above 50K.
  bool above_50k = false;
};

struct adult_data {
  std::vector<adult_row> train;
  std::vector<adult_row> test;
  /// Rows of each categorical column's table: row 0 for unknown values, then the training file's distinct values in
  /// order of first appearance. `?` is an ordinary value.
  std::array<std::int64_t, adult_tables> table_rows{};
};

/// Parses both files' text. Faults name file, line, column and value.
result<adult_data> parse_adult(std::string_view train_text, std::string_view test_text);

/// Reads the files that are compiled into the library.
result<adult_data> read_adult();

}  // namespace troupe::model
