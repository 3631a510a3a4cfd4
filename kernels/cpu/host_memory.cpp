#include "kernels/cpu/host_memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace troupe::kernels {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t worth_huge_pages = 2 * huge_page;

}  // namespace

std::shared_ptr<std::byte> allocate_on_host(std::size_t size) {
  if (size == 0) return nullptr;
  const std::size_t alignment = size >= worth_huge_pages ? huge_page : cache_line;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (rounded < size) throw std::bad_alloc();
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)), std::free);
  if (memory == nullptr) throw std::bad_alloc();
  // Failure means that the system has no huge pages: nothing is lost but speed.
  if (alignment == huge_page) madvise(memory.get(), rounded, MADV_HUGEPAGE);
  return memory;
}

}  // namespace troupe::kernels
