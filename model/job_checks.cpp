#include <fmt/format.h>

#include "model/files/csv_columns.hpp"
#include "model/job_table.hpp"
#include "model/text.hpp"

namespace troupe {

namespace {

// Numbers of a size that no machine this runs on holds; below them no product here overflows 64 bits.
constexpr std::uint64_t table_weights_max = std::uint64_t{1} << 40;
constexpr std::uint64_t dense_weights_max = std::uint64_t{1} << 31;
// A step's occurrences of one table's rows are counted in 32 bits.
constexpr std::uint64_t step_indices_max = (std::uint64_t{1} << 31) - 1;

// The features of a file's rows, and the rows of all tables.
struct file_features {
  std::uint64_t tables = 0;
  std::uint64_t dense = 0;
  std::uint64_t rows = 0;
};

// Of a csv file: none if its columns are described wrongly, which `check_files` finds first.
file_features features_of(const job& what, data_kind kind) {
  if (kind == data_kind::criteo) {
    return {criteo_tables, criteo_dense_features, criteo_tables * static_cast<std::uint64_t>(what.rows)};
  }
  file_features found;
  for (const auto& column : parse_columns(what).value_or(std::vector<csv_column>())) {
    found.dense += column.kind == csv_kind::numeric ? 1 : 0;
    found.tables += column.is_table() ? 1 : 0;
    found.rows += static_cast<std::uint64_t>(column.rows);
  }
  return found;
}

std::optional<std::string> check_files(const job& what, data_kind kind) {
  const auto rows = static_cast<std::uint64_t>(what.rows);
  if (rows < file_rows_min || rows > file_rows_max) {
    return fmt::format("--rows {}: must be between {} and {} for tables of a file", what.rows, file_rows_min,
                       file_rows_max);
  }
  if (!what.test_file.empty() && what.test_fraction > 0) {
    return fmt::format("--test-fraction {}: --test-file {} has the test rows already; use one of the two",
                       what.test_fraction, printable(what.test_file));
  }
  if (kind == data_kind::csv) {
    if (what.columns.empty()) return "--columns: must be given with --data csv:FILE: it says what the columns are";
    if (auto columns = parse_columns(what); !columns) return std::move(columns.error().message);
  }
  const auto features = features_of(what, kind);
  // At most 2^44 rows in all: divide instead of multiplying.
  if (features.rows > table_weights_max / what.dim) {
    return fmt::format("--rows {}: {} table(s) of {} rows in all, x {}, would be more than {} weights; use fewer rows",
                       what.rows, features.tables, features.rows, what.dim, table_weights_max);
  }
  return std::nullopt;
}

std::optional<std::string> check_loss(const job& what, data_kind kind) {
  if (kind == data_kind::csv && what.loss == loss_kind::mse && what.classes != 2) {
    return fmt::format("--classes {}: --loss mse has no classes; leave it out, or use cross-entropy", what.classes);
  }
  if (what.loss != loss_kind::bce_logits) return std::nullopt;
  if (kind == data_kind::tutorial) {
    return fmt::format("--loss bce-logits: needs targets in 2 classes, the tutorial has {}; use cross-entropy or mse",
                       tutorial_classes);
  }
  if ((kind == data_kind::synthetic || kind == data_kind::csv) && what.classes != 2) {
    return fmt::format("--loss bce-logits: needs --classes 2, not {}; use cross-entropy or mse", what.classes);
  }
  return std::nullopt;
}

std::optional<std::string> check_synthetic(const job& what) {
  const auto rows = static_cast<std::uint64_t>(what.rows);
  // rows <= 10^12 < 2^40 and tables * dim <= 2^28, so divide instead of multiplying.
  if (rows > table_weights_max / (what.tables * what.dim)) {
    return fmt::format("--rows {}: {} table(s) of {} rows x {} would be more than {} weights; use fewer rows",
                       what.rows, what.tables, what.rows, what.dim, table_weights_max);
  }
  const std::uint64_t indices = std::uint64_t{what.trainers} * what.batch_size * what.bag;
  if (indices > step_indices_max) {
    return fmt::format(
        "--batch-size {}: {} trainers x {} samples x {} indices must be at most {} a step; use smaller "
        "batches",
        what.batch_size, what.trainers, what.batch_size, what.bag, step_indices_max);
  }
  return std::nullopt;
}

// Width of the network's input; 0 where only the file knows.
std::uint64_t input_width(const job& what, data_kind kind) {
  switch (kind) {
    case data_kind::adult:
      return adult_tables * what.dim + adult_dense_features;
    case data_kind::tutorial:
      return tutorial_dim;
    case data_kind::synthetic:
      return what.tables * what.dim;
    case data_kind::criteo:
    case data_kind::csv: {
      const auto features = features_of(what, kind);
      return features.tables * what.dim + features.dense;
    }
    case data_kind::replay:
      break;
  }
  return 0;
}

// Classes of the targets; 1 where only the file knows.
std::size_t classes_of(const job& what, data_kind kind) {
  switch (kind) {
    case data_kind::adult:
      return adult_classes;
    case data_kind::tutorial:
      return tutorial_classes;
    case data_kind::criteo:
      return criteo_classes;
    case data_kind::synthetic:
    case data_kind::csv:
      return what.classes;
    case data_kind::replay:
      break;
  }
  return 1;
}

std::optional<std::string> check_network(const job& what, data_kind kind) {
  std::uint64_t weights = 0;
  std::uint64_t width = input_width(what, kind);
  const std::uint64_t outputs = outputs_for(what.loss, classes_of(what, kind));
  for (std::size_t layer = 0; layer <= what.hidden.size(); ++layer) {
    const std::uint64_t next = layer < what.hidden.size() ? what.hidden[layer] : outputs;
    weights += (width + 1) * next;
    width = next;
  }
  if (weights <= dense_weights_max) return std::nullopt;
  return fmt::format("--hidden {}: the network would have {} weights; must be at most {}; use narrower layers",
                     what.hidden.empty() ? "none" : fmt::format("{}", fmt::join(what.hidden, ",")), weights,
                     dense_weights_max);
}

}  // namespace

std::optional<std::string> check_job(const job& what, data_kind kind) {
  const bool is_file = kind == data_kind::criteo || kind == data_kind::csv;
  if (is_file) {
    if (auto wrong = check_files(what, kind)) return wrong;
  }
  const bool may_lack_tables = kind == data_kind::replay || (is_file && features_of(what, kind).tables == 0);
  if (what.servers == 0 && !may_lack_tables) {
    return fmt::format("--servers 0: must be between 1 and {}; {} has tables, which servers keep", actors_max,
                       what.data);
  }
  if (auto wrong = check_loss(what, kind)) return wrong;
  if (kind == data_kind::synthetic) {
    if (auto wrong = check_synthetic(what)) return wrong;
  }
  return check_network(what, kind);
}

}  // namespace troupe
