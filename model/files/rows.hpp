// Rows of a file: the formats of their lines, their form in memory, and their conversion to batches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/data.hpp"
#include "model/input_file.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// The layout of a row, with the location of each table's rows.
struct row_layout {
  /// The location of a table's rows: among the singles (one per sample), or among the bags.
  struct table {
    bool is_bag = false;
    /// The table's number among the tables of its kind.
    std::size_t number = 0;
  };

  std::size_t dense = 0;
  std::size_t singles = 0;
  std::size_t bags = 0;
  /// One entry per table of the model.
  std::vector<table> tables;

  /// Returns the 32-bit words of a row's record: the label, the dense features and the single tables' rows.
  std::size_t width() const { return 1 + dense + singles; }
};

/// Limit of values in all bags of a row, equal to that of `--bag`.
constexpr std::uint64_t bag_values_max = 65536;

/// The bags of several rows, row by row.
struct row_bags {
  /// The offset of each bag in `rows`, and the end of the last one.
  std::vector<std::uint64_t> begin{0};
  std::vector<std::uint32_t> rows;
};

/// Consecutive rows of a file in a compact form: a table's row number needs 4 bytes.
struct row_block {
  std::size_t rows = 0;
  /// [rows, width]: the label's bits, the dense features' bits, the single tables' rows.
  std::unique_ptr<std::uint32_t[]> records;
  /// [rows, layout.bags]
  row_bags bags;
  /// The first row of each window, and the end of the last one. Rows are shuffled within their window.
  std::vector<std::uint64_t> window_begin;
};

/// Builds a batch, sample by sample.
class batch_builder {
 public:
  /// `loss` decides whether labels are classes or values.
  batch_builder(const row_layout& layout, loss_kind loss, std::size_t size);

  /// Adds row `row` of `from` as the next sample. Requires: at most `size` calls.
  void add(const row_block& from, std::size_t row);

  /// Returns the batch. Requires: `size` samples were added.
  batch finish() &&;

 private:
  // The number of samples whose singles are copied into the indices together. The tables' indices are a batch's length
  // apart, often a power of two, so that their lines would compete for the same sets of a cache.
  static constexpr std::size_t tile_rows = 64;

  void empty_tile();

  const row_layout& layout_;
  loss_kind loss_;
  batch made_;
  std::vector<std::int64_t*> singles_;  // indices of the single tables, by number
  std::vector<bags*> bags_;             // bags of the other tables, by number
  std::vector<std::uint32_t> tile_;     // [tile_rows, singles]: samples that are not in `indices` yet
  std::size_t in_tile_ = 0;
  std::size_t next_ = 0;
};

/// Immutable. Thread: any.
class row_format {
 public:
  virtual ~row_format() = default;

  /// Parses a line without its end into `record` [layout().width()], and appends its bags. Requires:
  /// `line_reader::padding` bytes after the line are readable. Returns an error text for a wrong line; the results are
  /// then meaningless.
  virtual std::optional<std::string> parse(std::string_view line, std::uint32_t* record, row_bags& to) const = 0;

  /// Checks a line without reading the values: the number of its columns, and their quotes. Adds to `bag_values` the
  /// number of values that `parse` would append to the bags. Returns and requires the same as `parse`.
  virtual std::optional<std::string> check(std::string_view line, std::uint64_t& bag_values) const = 0;

  /// Returns the number of lines before the first row.
  virtual std::uint64_t header_lines() const { return 0; }

  virtual const row_layout& layout() const = 0;
  virtual const data_spec& spec() const = 0;
};

/// Makes the format of the public Criteo TSV: a label, 13 integers and 26 categories, separated by tabs.
std::shared_ptr<const row_format> criteo_format(const job& job);

/// Makes the format of a CSV file with the columns `job.columns`; reads the header line of `file`, if it has one.
result<std::shared_ptr<const row_format>> csv_format(const job& job, const std::shared_ptr<const input_file>& file);

}  // namespace troupe::model
