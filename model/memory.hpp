// How much memory there is, so that a table that cannot fit is refused before anything is allocated.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/rows.hpp"
#include "model/optimizer.hpp"

namespace troupe::model {

/// Bytes that this process may still take without swapping: what the kernel calls available, or what the control group
/// leaves, if that is less.
std::uint64_t available_memory();

/// a * b, or the largest number if that does not fit.
std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b);

/// Bytes of the rows of a table with the state that its optimizer keeps; the largest number if they do not fit in 64
/// bits.
std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, kernels::row_dtype dtype,
                          const optimizer_spec& optimizer);

/// The line that says that `what` would take `bytes`, that only `available` are there, and what to try.
std::string memory_fault(const std::string& what, std::uint64_t bytes, std::uint64_t available = available_memory(),
                         const std::string& advice = "use less, or an optimizer with less state");

}  // namespace troupe::model
