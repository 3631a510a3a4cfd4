// Memory for many numbers. For random access, as to the rows of a table, large blocks lie on huge pages, because with
// pages of 4 KiB nearly every row costs a page walk. And whether there is room for memory that a library takes by
// itself, without a way to refuse it.

#pragma once

#include <cstddef>
#include <memory>

namespace troupe {

/// From how many bytes on memory is worth huge pages.
inline constexpr std::size_t worth_huge_pages = std::size_t{1} << 22;

/// Returns `size` uninitialized bytes, aligned to a cache line, from 4 MiB on to a huge page; null for size 0. Asks for
/// transparent huge pages by madvise; without them the memory is only slower. Throws std::bad_alloc. Thread: any.
std::shared_ptr<std::byte> allocate_on_host(std::size_t size);

/// Returns whether the system gives this process `bytes` of memory now, in one piece: within its limits (ulimit -v,
/// ulimit -d), and within what the machine promises where it promises no more than it has. Takes nothing.
bool has_address_space(std::size_t bytes);

}  // namespace troupe
