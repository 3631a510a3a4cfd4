// What a server answers about the bits of a table's rows, from which the master makes the digest of all weights.

#pragma once

#include <caf/expected.hpp>
#include <cstdint>

#include "model/embedding_bag.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Returns the answer to `row_digests`: XXH3 of the bits of rows [first, first + count), or these rows if the shard has
/// only some columns. Errors: there are no such rows, they are more than a message asks for, or one is NaN or Inf.
caf::expected<msg::tensor> digests_of_rows(const model::embedding_bag& table, std::uint64_t first, std::uint64_t count);

}  // namespace troupe::actors
