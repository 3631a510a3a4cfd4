// The state of a table that is spread over servers: joined from the parts of its shards, and cut into them.

#pragma once

#include <vector>

#include "troupe/runtime/reference.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Returns [num_embeddings, embedding_dim].
shape table_shape(const reference& table);

/// Returns the state of which each shard has given its part, as one server would give it; of a module with one shard,
/// that part. Throws `error` if they are parts of different states.
named_tensors join_parts(const reference& module, const std::vector<named_tensors>& parts);

/// Returns the part of a state for each shard; of a module with one shard, all of it. What has not two dimensions is in
/// every part. Throws `error` if a matrix is not of the table's shape; what else is wrong, servers refuse.
std::vector<named_tensors> cut_state(const reference& module, const named_tensors& state);

}  // namespace troupe::runtime
