#include "base/address_space.hpp"

#include <sys/mman.h>

namespace troupe {

bool has_address_space(std::size_t bytes) {
  // Without reserve: else the system compares it with all of its memory, which stacks need not have. Where it promises
  // no more than it has, it reserves it all the same.
  constexpr int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, bytes);
  return true;
}

}  // namespace troupe
