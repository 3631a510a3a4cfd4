#include "base/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

namespace troupe {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Large blocks. Freed ones are kept and reused for the same size: the system clears every page of a new one, which
/// takes longer than filling it. The allocator would have a heap for each thread. Thread: any.
class large_blocks {
 public:
  static large_blocks& all() {
    static auto* const one = new large_blocks;  // used until the process ends
    return *one;
  }

  std::byte* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      used_bytes_ += bytes;
      const auto found =
          std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& one) { return one.second == bytes; });
      if (found != kept_.rend()) {
        std::byte* const block = found->first;
        kept_.erase(std::next(found).base());
        kept_bytes_ -= bytes;
        return block;
      }
    }
    if (std::byte* const block = map(bytes)) return block;
    const std::lock_guard lock(mutex_);
    free_down_to(0);
    if (std::byte* const block = map(bytes)) return block;
    used_bytes_ -= bytes;
    throw std::bad_alloc();
  }

  void give(std::byte* block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= bytes;
    kept_.emplace_back(block, bytes);
    kept_bytes_ += bytes;
    free_down_to(std::clamp(used_bytes_ / 4, kept_bytes_min, kept_bytes_max));
  }

 private:
  // These bytes may be kept, whatever is in use.
  static constexpr std::size_t kept_bytes_min = std::size_t{256} << 20;
  static constexpr std::size_t kept_bytes_max = std::size_t{1} << 30;

  void free_down_to(std::size_t kept_bytes) {
    while (kept_bytes_ > kept_bytes) {
      kept_bytes_ -= kept_.front().second;
      munmap(kept_.front().first, kept_.front().second);
      kept_.pop_front();
    }
  }

  /// Returns new memory that begins at a huge page, or null.
  static std::byte* map(std::size_t bytes) {
    const std::size_t more = bytes + huge_page;  // so that it contains the begin of a huge page
    if (more < bytes) return nullptr;
    void* const room = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return nullptr;
    auto* const first = static_cast<std::byte*>(room);
    const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(first) % huge_page) % huge_page;
    if (before > 0) munmap(first, before);
    munmap(first + before + bytes, huge_page - before);
    // If this fails, the system has no huge pages: the memory is only slower.
    madvise(first + before, bytes, MADV_HUGEPAGE);
    return first + before;
  }

  std::mutex mutex_;
  std::deque<std::pair<std::byte*, std::size_t>> kept_;  ///< in the order of freeing
  std::size_t kept_bytes_ = 0;
  std::size_t used_bytes_ = 0;
};

}  // namespace

std::shared_ptr<std::byte> allocate_on_host(std::size_t size) {
  if (size == 0) return nullptr;
  const std::size_t alignment = size >= worth_huge_pages ? huge_page : cache_line;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (rounded < size) throw std::bad_alloc();
  if (alignment == cache_line) {
    std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)), std::free);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  return {large_blocks::all().take(rounded), [rounded](std::byte* block) { large_blocks::all().give(block, rounded); }};
}

bool has_address_space(std::size_t bytes) {
  // Without reserve: otherwise the system compares the size with all of its memory, which stacks do not need. A system
  // that does not overcommit reserves it all the same.
  constexpr int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, bytes);
  return true;
}

}  // namespace troupe
