// What `instantiate` and `gradient` messages hold, as far as it takes to find the gradient of a row: their contents as
// mode `payload` records them, taken apart without the protocol's types, which this room must not know.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/content.hpp"

namespace troupe::analysis {

/// A server's shard of an embedding table, as an `instantiate` message asks for it.
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

/// Nothing: its fields are damaged, or were not recorded, or it is no table.
std::optional<table_shard> shard_of(const content& instantiate);

/// The fields of a gradient.
struct gradient_fields {
  std::uint32_t rank = 0;
  std::vector<std::uint64_t> modules;  ///< of `tables[0]`, `tables[1]`, ...
};
std::optional<gradient_fields> fields_of(const content& gradient);

struct summed_row {
  std::uint64_t occurrences = 0;
  std::vector<double> sum;  ///< of what each occurrence adds to the row's gradient; empty if there is none
};

/// The gradient of row `place` of a shard in `tables[i]` of a gradient message. With offsets, `grad` has a row for each
/// bag, which each occurrence in it adds, times its weight, or divided by the bag's length for a mean; without, a row
/// for each index. Nothing: parts are missing, or do not fit each other.
std::optional<summed_row> gradient_of_row(const content& gradient, std::size_t i, const table_shard& of,
                                          std::uint64_t place);

}  // namespace troupe::analysis
