// The columns of a CSV file: the setting `columns`.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "kernels/embedding_bag.hpp"

namespace troupe::model {

struct job;

/// Returns whether `text` can separate columns, or values of a field: it must be one byte, since characters beyond
/// ASCII have several in UTF-8.
bool is_separator(std::string_view text);
constexpr const char* separator_limit = "one ASCII character, of one byte, other than a line's end";

/// The use of a column: the target, a dense feature, a table with one index per sample, a table with a bag per sample,
/// or none.
enum class csv_kind : std::uint8_t { label, numeric, categorical, multi, ignore };

struct csv_column {
  /// May be empty in a file without a header.
  std::string name;
  csv_kind kind = csv_kind::ignore;
  /// Rows of the table.
  std::int64_t rows = 0;
  /// The values of rows 1, 2, ...; row 0 is for other values. Empty: values are hashed.
  std::vector<std::string> vocabulary;
  /// multi: the separator of a field's values, and the pooling of their rows.
  char separator = '|';
  kernels::pooling mode = kernels::pooling::mean;
  /// numeric: the feature is log(1 + max(x, 0)) instead of x.
  bool log1p = false;

  bool is_table() const { return kind == csv_kind::categorical || kind == csv_kind::multi; }
  bool operator==(const csv_column&) const = default;
};

/// Parses `job.columns`, a JSON array of objects with the keys name, kind, rows, vocabulary, separator, mode and
/// transform. Faults name column and key: unknown keys, keys that do not apply to the kind, malformed values, repeated
/// names, no label or several, no features.
result<std::vector<csv_column>> parse_columns(const job& job);

/// Returns the keys of a column, in the order of printed job files.
const std::vector<std::string>& column_keys();

/// Returns "column 2 (age)", or "column 2" without a name. `number` counts from 1.
std::string column_text(std::size_t number, const std::string& name);

}  // namespace troupe::model
