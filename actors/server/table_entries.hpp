// The entries of a table's state, before they are loaded.

#pragma once

#include <span>

#include "actors/common/failure.hpp"
#include "actors/server/kept_table.hpp"
#include "model/embedding_bag.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Returns an error if the entries do not fit the arrays `own` of `table`, rows first: an unknown or repeated name,
/// another shape or type, no rows, or only a part of the optimizer's state. Only the rows may have another type than
/// float32: entries of float32 are rounded to that type.
caf::error check_entries(const msg::state_entries& entries, std::span<const table_array> own,
                         const model::embedding_bag& table);

}  // namespace troupe::actors
