// Rows and their gradients in messages: float32, or 16 bits a number, which halves a message; and the digests of rows,
// from which the master makes the digest of all weights. Thread: any.

#pragma once

#include <caf/expected.hpp>
#include <cstddef>
#include <cstdint>

#include "model/embedding_bag.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Returns [rows, cols] of `type` from float32. Each number is rounded once, to the nearest, ties to even; a number out
/// of the type's range becomes Inf.
msg::tensor encode_rows(const float* numbers, std::uint64_t rows, std::uint64_t cols, kernels::row_dtype type);

/// Writes a tensor's numbers as float32. Requires: the tensor is consistent and of a type of rows.
void decode_rows(const msg::tensor& from, float* to);

/// Returns the position of the first NaN or Inf; the number of elements without one. Requires: as `decode_rows`.
std::size_t find_non_finite(const msg::tensor& numbers);

/// Returns the answer to `row_digests`: XXH3 of the bits of rows [first, first + count), or these rows if the shard has
/// only some columns. Errors: the rows do not exist, are more than a message may request, or contain NaN or Inf.
caf::expected<msg::tensor> digests_of_rows(const model::embedding_bag& table, std::uint64_t first, std::uint64_t count);

}  // namespace troupe::actors
