// Formats of files: how lines become rows.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/files/rows.hpp"
#include "model/input_file.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// Immutable. Thread: any.
class row_format {
 public:
  virtual ~row_format() = default;

  /// Parses a line without its end into `record` [layout().width()], and appends its bags. Requires:
  /// `line_reader::padding` bytes after the line are readable. Returns an error text for a wrong line; the results are
  /// then meaningless.
  virtual std::optional<std::string> parse(std::string_view line, std::uint32_t* record, row_bags& to) const = 0;

  /// Returns how many values `parse` would append to the bags; any number for a wrong line.
  virtual std::uint64_t bag_values(std::string_view) const { return 0; }

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
