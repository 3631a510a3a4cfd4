// Memory for many numbers. Large blocks use huge pages for random access, as to rows of a table: with pages of 4 KiB
// nearly every row costs a page walk. Also checks whether there is memory for a library that allocates it itself and
// cannot report a failure.

#pragma once

#include <cstddef>
#include <memory>

namespace troupe {

/// The size in bytes from which on memory is worth huge pages.
inline constexpr std::size_t worth_huge_pages = std::size_t{1} << 22;

/// Returns `size` uninitialized bytes, aligned to a cache line, from 4 MiB on to a huge page; null for size 0. Requests
/// transparent huge pages by madvise; without them the memory is only slower. Throws std::bad_alloc. Thread: any.
std::shared_ptr<std::byte> allocate_on_host(std::size_t size);

/// Returns whether the system can give this process `bytes` of memory now, in one piece: within its limits (ulimit -v,
/// ulimit -d), and, if the machine does not overcommit, within what is left. Allocates nothing.
bool has_address_space(std::size_t bytes);

}  // namespace troupe
