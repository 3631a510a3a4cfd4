// The gradients that touched one row of an embedding table.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/type_ids.hpp"
#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// One trainer's gradient of the row from one batch, as sent: before the server takes the mean over trainers, clips,
/// and multiplies by the learning rate.
struct row_gradient {
  std::uint64_t message = 0;
  std::uint64_t step = 0;
  std::uint32_t trainer = 0;      ///< rank
  std::uint64_t occurrences = 0;  ///< how often the batch has the row; 1 if the trainer has summed them
  double norm = 0;                ///< Euclidean
  double largest = 0;             ///< largest absolute value; NaN if any is NaN
  bool refused = false;           ///< the server refused it, and it changed nothing
};

/// A server's shard of an embedding table.
struct table_shard {
  std::uint64_t table = 0;
  std::uint64_t rows = 0;  ///< in the whole table
  std::uint64_t dim = 0;
  bool is_mean = false;  ///< pooling: mean, not sum
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  bool has_columns = false;  ///< some columns of every row, not all of some rows

  /// Shard s of n has the rows r with r mod n = s, each at index r / n.
  bool has(std::uint64_t row) const { return row < rows && row % shards == shard; }
  std::uint64_t index_of(std::uint64_t row) const { return row / shards; }
};

struct summed_row {
  std::uint64_t occurrences = 0;
  std::vector<double> sum;  ///< over all occurrences, [dim]; empty without one
};

/// The gradient of `row` in `one`. With offsets, `grad` is [bags, dim], and each occurrence adds its bag's row times
/// its weight, or divided by the bag's length for a mean; without, `grad` is [indices, dim]. Nullopt: the shapes of its
/// parts do not agree. Requires: `of` has `row`.
std::optional<summed_row> gradient_of_row(const msg::bag_gradient& one, const table_shard& of, std::uint64_t row);

struct blame_report {
  std::uint64_t table = 0;
  std::uint64_t row = 0;
  std::uint16_t server = 0;           ///< the actor that has the row
  std::uint64_t gradients = 0;        ///< messages searched
  std::vector<row_gradient> touches;  ///< in the order in which the server handled them
  std::vector<std::string> notes;     ///< what may be missing
};

/// Searches the gradients that the server with `row` of `table` handled. Contents are recorded in mode `payload`.
/// Errors: contents of gradients were not recorded, no such table, no such row.
result<blame_report> blame(const trace::recording& run, std::uint64_t table, std::uint64_t row);

/// Text for a terminal: at most `limit` gradients, those with the largest norms if there are more.
std::string blame_text(const trace::recording& run, const blame_report& report, std::size_t limit);
boost::json::object blame_json(const trace::recording& run, const blame_report& report);

}  // namespace troupe::analysis
