// Which servers keep which tables.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/data.hpp"

namespace troupe::model {

/// For each table the servers that keep it, by shard: one, or all of them.
///
/// A table's traffic is what its lookups read for a sample: indices times width. Tables, heaviest first, go whole to
/// the server with the least traffic so far (longest processing time first: Graham, Bounds on multiprocessing timing
/// anomalies, 1969), where their rows are pooled before they travel. A table that would give that server a quarter more
/// than its fair share of the traffic, or that is a big part of the memory, is spread over all servers instead, row by
/// row. Results do not depend on it.
/// `servers` must be at least 1.
std::vector<std::vector<std::uint32_t>> place_tables(std::span<const table_spec> tables, std::uint32_t servers);

}  // namespace troupe::model
