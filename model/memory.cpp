#include "model/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/control_group.hpp"

namespace troupe::model {

namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : unlimited;  // "max" or no such file: no limit
}

/// Returns the bytes that `ulimit -v` leaves.
std::uint64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const std::uint64_t pages = number_in("/proc/self/statm");
  if (pages == unlimited) return unlimited;  // it cannot be read
  const std::uint64_t used = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t available = unlimited;
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::string unit;
  std::uint64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") available = kib * 1024;
    std::getline(meminfo, unit);
  }
  return std::min({available, memory_left(memory_groups()), address_space_left()});
}

std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b) {
  return __builtin_mul_overflow(a, b, &a) ? unlimited : a;
}

std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, kernels::row_dtype dtype,
                          const optimizer_spec& optimizer) {
  const std::uint64_t weights = bounded_product(dim, kernels::size_of(dtype));
  const std::uint64_t state = bounded_product(state_columns(optimizer, dim),
                                              static_cast<std::uint64_t>(state_buffers(optimizer)) * sizeof(float));
  std::uint64_t row = 0;
  if (__builtin_add_overflow(weights, state, &row)) row = unlimited;
  return bounded_product(static_cast<std::uint64_t>(rows), row);
}

std::string memory_fault(const std::string& what, std::uint64_t bytes, std::uint64_t available,
                         const std::string& advice) {
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  return fmt::format("{} would take {:.1f} GiB, and {:.1f} GiB of memory are available; {}", what,
                     static_cast<double>(bytes) / gib, static_cast<double>(available) / gib, advice);
}

}  // namespace troupe::model
