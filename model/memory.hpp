// Available memory, for refusing tables that cannot fit before anything is allocated.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/embedding_bag.hpp"
#include "model/optimizer.hpp"

namespace troupe::model {

/// Returns the bytes that this process can allocate without swapping: the kernel's MemAvailable, or what its control
/// groups or `ulimit -v` leave, if that is less.
std::uint64_t available_memory();

/// Returns a * b, saturated at the largest number.
std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b);

/// Returns the bytes of a table's rows and optimizer state, saturated at the largest number.
std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, kernels::row_dtype dtype,
                          const optimizer_spec& optimizer);

/// Returns the error line: `what` would take `bytes`, only `available` are available, and the advice.
std::string memory_fault(const std::string& what, std::uint64_t bytes, std::uint64_t available = available_memory(),
                         const std::string& advice = "use less, or an optimizer with less state");

}  // namespace troupe::model
