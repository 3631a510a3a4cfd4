// How the lines of a file become rows: one format for each kind of file.

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

/// Nothing changes after it was made: may be used from any thread.
class row_format {
 public:
  virtual ~row_format() = default;

  /// Reads a line without its end, behind which `line_reader::padding` bytes may be read, into `record`
  /// [layout().width()], and appends its bags. Returns what is wrong with the line, if anything is; what has been
  /// written is then meaningless.
  virtual std::optional<std::string> parse(std::string_view line, std::uint32_t* record, row_bags& to) const = 0;

  /// How many values `parse` would append to the bags for this line; of a line that is wrong, any number.
  virtual std::uint64_t bag_values(std::string_view) const { return 0; }

  /// Lines before the first row.
  virtual std::uint64_t header_lines() const { return 0; }

  virtual const row_layout& layout() const = 0;
  virtual const data_spec& spec() const = 0;
};

/// The public Criteo TSV: a label, 13 integers and 26 categories, with tabs between them.
std::shared_ptr<const row_format> criteo_format(const job& job);

/// A CSV file whose columns `job.columns` describes; reads the header line of `file`, if it has one.
result<std::shared_ptr<const row_format>> csv_format(const job& job, const std::shared_ptr<const input_file>& file);

}  // namespace troupe::model
