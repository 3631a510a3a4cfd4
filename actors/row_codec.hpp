// Rows and their gradients as they travel: as float32, or in 16 bits a number, which halves a message.
// Everything here may be called from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/rows.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Returns the type that rows stored as `type` have in messages.
msg::dtype dtype_of(kernels::row_dtype type);
/// The inverse; nullopt if `type` is no type of rows.
std::optional<kernels::row_dtype> row_dtype_of(msg::dtype type);

/// [rows, cols] of `type` from float32, each number rounded once, to the nearest, ties to even. One that is beyond what
/// the type holds becomes Inf.
msg::tensor encode_rows(const float* numbers, std::uint64_t rows, std::uint64_t cols, kernels::row_dtype type);

/// The float32 numbers of a tensor that is consistent and of a type of rows.
void decode_rows(const msg::tensor& from, float* to);

/// The position of the first NaN or Inf, or the number of numbers if there is none; of a tensor as above.
std::size_t find_non_finite(const msg::tensor& numbers);

}  // namespace troupe::actors
