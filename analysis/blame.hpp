// Every gradient that touched a row of a table.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace.hpp"
#include "base/result.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::analysis {

/// What one trainer's gradient of one batch had for the row: what it sent, before the server takes the mean over
/// trainers, clips, and multiplies by the learning rate.
struct row_gradient {
  std::uint64_t message = 0;
  std::uint64_t step = 0;
  std::uint32_t trainer = 0;      ///< rank
  std::uint64_t occurrences = 0;  ///< of the row in the batch; 1 where the trainer has added them up itself
  double norm = 0;                ///< Euclidean
  double largest = 0;             ///< absolute value; NaN if any number of it is
  bool refused = false;           ///< by the server: it changed nothing
};

/// A server's shard of an embedding table.
struct table_shard {
  std::uint64_t table = 0;
  std::uint64_t rows = 0;  ///< of the whole table
  std::uint64_t dim = 0;
  bool is_mean = false;  ///< bags are pooled by their mean, not their sum
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;

  /// Rows are dealt out to shards one by one: shard s of n has the rows r with r mod n = s, each at r / n.
  bool has(std::uint64_t row) const { return row < rows && row % shards == shard; }
  std::uint64_t place(std::uint64_t row) const { return row / shards; }
};

struct summed_row {
  std::uint64_t occurrences = 0;
  std::vector<double> sum;  ///< of what each occurrence adds to the row's gradient; empty if there is none
};

/// What `one` has for `row`, which `of` has. With offsets, `grad` has a row for each bag, which each occurrence in it
/// adds, times its weight, or divided by the bag's length for a mean; without, a row for each index. Nothing: its parts
/// do not fit each other.
std::optional<summed_row> gradient_of_row(const msg::bag_gradient& one, const table_shard& of, std::uint64_t row);

struct blame_report {
  std::uint64_t table = 0;
  std::uint64_t row = 0;
  std::uint16_t server = 0;           ///< the actor that keeps the row
  std::uint64_t gradients = 0;        ///< messages that were looked at
  std::vector<row_gradient> touches;  ///< as the server handled them
  std::vector<std::string> notes;     ///< what may be missing
};

/// Looks through what the server that keeps `row` of `table` was sent, which mode `payload` records. Errors: contents
/// of gradients were not recorded, no such table, no such row.
result<blame_report> blame(const trace::recording& run, std::uint64_t table, std::uint64_t row);

/// For a terminal: at most `limit` gradients, those with the largest norms if there are more.
std::string blame_text(const trace::recording& run, const blame_report& report, std::size_t limit);
boost::json::object blame_json(const trace::recording& run, const blame_report& report);

}  // namespace troupe::analysis
