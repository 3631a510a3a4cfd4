// How a table is split over servers: by rows, or by columns.

#pragma once

#include <algorithm>
#include <cstdint>

#include "base/table_choices.hpp"

namespace troupe::model {

using troupe::table_split;

/// A shard of a table.
struct shard_of {
  std::uint32_t index = 0;
  std::uint32_t count = 1;
  table_split split = table_split::rows;

  bool operator==(const shard_of&) const = default;
};

/// Adjacent columns.
struct column_range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Returns how many rows of a table of `rows` rows are on `shard`.
constexpr std::uint64_t rows_on(std::uint64_t rows, shard_of shard) {
  if (shard.split == table_split::columns) return rows;
  return rows / shard.count + (shard.index < rows % shard.count ? 1 : 0);
}

/// Returns the whole-table number of row `row` of `shard`.
constexpr std::uint64_t whole_row(std::uint64_t row, shard_of shard) {
  return shard.split == table_split::columns ? row : row * shard.count + shard.index;
}

/// Returns the number on `shard` of a row that the shard has.
constexpr std::uint64_t local_row(std::uint64_t row, shard_of shard) {
  return shard.split == table_split::columns ? row : row / shard.count;
}

/// Returns which columns of a table of `columns` columns are on `shard`.
constexpr column_range columns_on(std::uint64_t columns, shard_of shard) {
  if (shard.split == table_split::rows) return {0, columns};
  const std::uint64_t each = columns / shard.count;
  const std::uint64_t wider = columns % shard.count;
  return {shard.index * each + std::min<std::uint64_t>(shard.index, wider), each + (shard.index < wider ? 1 : 0)};
}

}  // namespace troupe::model
