// Memory for the rows of a table, whose accesses are random: on huge pages where it is large enough, since with pages
// of 4 KiB nearly every row costs a walk through the page tables.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace troupe {

/// A block of bytes that begins on a cache line, from 4 MiB on on a huge page. Uninitialized. Not thread-safe.
class table_memory {
 public:
  /// Memory of `size` bytes; none with 0. Throws std::bad_alloc. The system is asked for huge pages (Linux: transparent
  /// ones, by madvise); where it has none, the memory is as good but slower.
  explicit table_memory(std::size_t size = 0);

  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct freeing {
    void operator()(std::byte* data) const { std::free(data); }
  };

  std::unique_ptr<std::byte, freeing> data_;
  std::size_t size_;
};

}  // namespace troupe
