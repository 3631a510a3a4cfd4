// Every gradient that touched a row of a table.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "analysis/trace.hpp"

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
tl::expected<blame_report, std::string> blame(const recording& run, std::uint64_t table, std::uint64_t row);

/// For a terminal: at most `limit` gradients, those with the largest norms if there are more.
std::string blame_text(const recording& run, const blame_report& report, std::size_t limit);
boost::json::object blame_json(const recording& run, const blame_report& report);

}  // namespace troupe::analysis
