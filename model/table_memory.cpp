#include "model/table_memory.hpp"

#include <sys/mman.h>

#include <new>

namespace troupe {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t worth_huge_pages = 2 * huge_page;

}  // namespace

table_memory::table_memory(std::size_t size) : size_(size) {
  if (size == 0) return;
  const std::size_t alignment = size >= worth_huge_pages ? huge_page : cache_line;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (rounded < size) throw std::bad_alloc();
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (data_ == nullptr) throw std::bad_alloc();
  // Failure means that the system has no huge pages: nothing is lost but speed.
  if (alignment == huge_page) madvise(data_.get(), rounded, MADV_HUGEPAGE);
}

}  // namespace troupe
