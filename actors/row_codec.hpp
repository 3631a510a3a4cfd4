// Rows and their gradients in messages: float32, or 16 bits a number, which halves a message. Thread: any.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/embedding_bag.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Returns the type that rows stored as `type` have in messages.
msg::dtype dtype_of(kernels::row_dtype type);
/// The inverse; nullopt if rows cannot have this type.
std::optional<kernels::row_dtype> row_dtype_of(msg::dtype type);

/// Returns [rows, cols] of `type` from float32. Each number is rounded once, to the nearest, ties to even; a number out
/// of the type's range becomes Inf.
msg::tensor encode_rows(const float* numbers, std::uint64_t rows, std::uint64_t cols, kernels::row_dtype type);

/// Writes a tensor's numbers as float32. Requires: the tensor is consistent and of a type of rows.
void decode_rows(const msg::tensor& from, float* to);

/// Returns the position of the first NaN or Inf; the number of elements if there is none. Requires: as above.
std::size_t find_non_finite(const msg::tensor& numbers);

}  // namespace troupe::actors
