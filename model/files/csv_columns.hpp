// What the columns of a CSV file are: the setting `columns`.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/job.hpp"

namespace troupe::model {

/// What a column is used for: the target, a dense feature, a table with one index a sample, a table with a bag of
/// indices a sample, or nothing.
enum class csv_kind : std::uint8_t { label, numeric, categorical, multi, ignore };

struct csv_column {
  /// May be empty in a file without a header.
  std::string name;
  csv_kind kind = csv_kind::ignore;
  /// Rows of the table.
  std::int64_t rows = 0;
  /// The values of rows 1, 2, ...; row 0 has all others. Empty: values are hashed.
  std::vector<std::string> vocabulary;
  /// multi: between the values of a field, and how their rows are pooled.
  char separator = '|';
  kernels::pooling mode = kernels::pooling::mean;
  /// numeric: the feature is log(1 + max(x, 0)) instead of x.
  bool log1p = false;

  bool is_table() const { return kind == csv_kind::categorical || kind == csv_kind::multi; }
};

/// Reads `job.columns`, a JSON array of objects with these keys: name, kind, rows, vocabulary, separator, mode and
/// transform. Faults name the column and the key: unknown keys, keys that the kind does not have, malformed values, two
/// columns of one name, no label or two, no features.
result<std::vector<csv_column>> parse_columns(const job& job);

/// How a message calls the column: "column 2 (age)", or "column 2" if it has no name. `number` counts from 1.
std::string column_text(std::size_t number, const std::string& name);

}  // namespace troupe::model
