// How much memory there is, so that a table that cannot fit is refused before anything is allocated.

#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Bytes that this process may still take without swapping: what the kernel calls available, or what the control group
/// leaves, if that is less.
std::uint64_t available_memory();

/// Bytes of a table with its optimizer's buffers; the largest number if it does not fit in 64 bits.
std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, int state_buffers);

/// The line that says that `what` would take `bytes` and there are not as many.
std::string memory_fault(const std::string& what, std::uint64_t bytes);

}  // namespace troupe
