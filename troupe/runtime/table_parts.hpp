// The state of a table that is spread over servers: joins it from the parts of its shards, and cuts it into them.

#pragma once

#include <vector>

#include "troupe/runtime/reference.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Returns [num_embeddings, embedding_dim].
shape table_shape(const reference& table);

/// Joins the parts that all shards have returned, as one server would return them; with one shard, returns that part.
/// Throws `error` if they are parts of different states.
named_tensors join_parts(const reference& module, const std::vector<named_tensors>& parts);

/// Returns the part of a state for each shard; with one shard, all of it. Tensors without two dimensions are in every
/// part. Throws `error` if a matrix does not have the table's shape; servers refuse other faults.
std::vector<named_tensors> cut_state(const reference& module, const named_tensors& state);

}  // namespace troupe::runtime
