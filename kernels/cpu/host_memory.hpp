// Memory of the host for numbers whose accesses are random, as those to the rows of a table are: on huge pages where it
// is large enough, since with pages of 4 KiB nearly every row costs a walk through the page tables.

#pragma once

#include <cstddef>
#include <memory>

namespace troupe::kernels {

/// `size` uninitialized bytes that begin on a cache line, from 4 MiB on on a huge page; null with 0. Throws
/// std::bad_alloc. The system is asked for huge pages (Linux: transparent ones, by madvise); where it has none, the
/// memory is as good but slower. May be called from any thread.
std::shared_ptr<std::byte> allocate_on_host(std::size_t size);

}  // namespace troupe::kernels
