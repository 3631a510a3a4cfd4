// The choices for a table of rows, for kernels, jobs and programs alike.

#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// How an embedding bag combines several rows to one.
enum class pooling : std::uint8_t { sum, mean, max };

/// The shape and pooling of an embedding table.
struct table_spec {
  std::int64_t rows = 0;
  std::size_t dim = 0;
  pooling mode = pooling::sum;
  /// Bags carry per-sample weights (mode sum only).
  bool weighted = false;
  /// The expected length of a bag, which determines the table's traffic.
  double indices_per_sample = 1;

  bool operator==(const table_spec&) const = default;
};

/// How the trainers' gradients are combined.
enum class reduction : std::uint8_t { sum, mean };

/// How a table is split over servers. rows: row r is on shard r % shards, as its row r / shards. columns: each shard
/// has a range of adjacent columns of every row; the first (columns % shards) shards have one more than the others.
enum class table_split : std::uint8_t { rows, columns };

/// The initial values of the rows: a function of the run's seed, the table and the row, wherever the table is.
struct row_init {
  enum class kind : std::uint8_t { normal, uniform };

  kind is = kind::normal;
  double first = 1;   ///< normal: the deviation; uniform: the least number
  double second = 0;  ///< uniform: the largest number, at least `first`

  bool operator==(const row_init&) const = default;
};

}  // namespace troupe
