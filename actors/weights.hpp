// A table's rows, put together again from its shards, and the digest of a model's final bits.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/rows.hpp"
#include "protocol/tensor.hpp"

namespace troupe {

/// How a table of rows stored as `type` travels.
dtype dtype_of(kernels::row_dtype type);

/// [rows, dim] of float32 from the shards' [local rows, dim] by shard number, which may be rows of any `row_dtype`.
tensor merge_shards(const std::vector<tensor>& shards, std::uint64_t rows, std::uint64_t dim);

/// The digest of all weights, 16 hexadecimal digits: XXH3 of the digests of every table's rows in row order (8 bytes
/// each, XXH3 of the row's bits), table by table, and of the digest of the dense weights' bits.
/// `row_digests`: by table, then shard.
std::string weights_digest(const std::vector<std::vector<tensor>>& row_digests, const tensor& dense);

}  // namespace troupe
