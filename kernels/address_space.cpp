#include "kernels/address_space.hpp"

#include <sys/mman.h>

namespace troupe::kernels {

bool has_address_space(std::size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, bytes);
  return true;
}

}  // namespace troupe::kernels
