// Placement of tables on servers.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/data.hpp"
#include "model/table_split.hpp"

namespace troupe::model {

/// Returns for each table its servers by shard: one, or all of them.
///
/// A table's traffic is indices times width of a sample. Tables, heaviest first, are placed whole on the server with
/// the least traffic so far (longest processing time first: Graham, Bounds on multiprocessing timing anomalies, 1969),
/// which pools their rows before sending. A table that would exceed that server's fair share of traffic by a quarter,
/// or that is a large part of the memory, is sharded by rows over all servers instead. If split by columns, every table
/// is on all servers, as far as it has columns. Results do not depend on the placement. Requires: `servers` is at least
/// 1.
std::vector<std::vector<std::uint32_t>> place_tables(std::span<const table_spec> tables, std::uint32_t servers,
                                                     table_split split = table_split::rows);

}  // namespace troupe::model
