#include "model/memory.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <mutex>

#include "base/control_group.hpp"
#include "base/units.hpp"

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
  if (pages == unlimited) return unlimited;  // the file cannot be read
  const std::uint64_t used = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

/// Returns the available bytes according to the system.
std::uint64_t memory_of_system() {
  std::uint64_t available = unlimited;
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::string rest;
  std::uint64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") available = kib * 1024;
    std::getline(meminfo, rest);
  }
  return std::min({available, memory_left(memory_groups()), address_space_left()});
}

/// The bytes that this process has claimed.
struct claims {
  std::mutex mutex;
  std::uint64_t bytes = 0;

  /// Requires: the caller holds the lock.
  std::uint64_t available() const {
    const std::uint64_t all = memory_of_system();
    return all > bytes ? all - bytes : 0;
  }
};

claims& all_claims() {
  static claims all;
  return all;
}

}  // namespace

std::uint64_t available_memory() {
  claims& all = all_claims();
  const std::lock_guard lock(all.mutex);
  return all.available();
}

std::uint64_t claimed_memory() {
  claims& all = all_claims();
  const std::lock_guard lock(all.mutex);
  return all.bytes;
}

tl::expected<memory_claim, std::uint64_t> claim_memory(std::uint64_t bytes) {
  claims& all = all_claims();
  const std::lock_guard lock(all.mutex);
  if (const std::uint64_t available = all.available(); bytes > available) return tl::unexpected(available);
  all.bytes += bytes;
  tl::expected<memory_claim, std::uint64_t> made;
  made->bytes_ = bytes;
  return made;
}

void memory_claim::shrink(std::uint64_t bytes) {
  if (bytes >= bytes_) return;
  claims& all = all_claims();
  const std::lock_guard lock(all.mutex);
  all.bytes -= bytes_ - bytes;
  bytes_ = bytes;
}

std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b) {
  return __builtin_mul_overflow(a, b, &a) ? unlimited : a;
}

std::uint64_t bounded_sum(std::uint64_t a, std::uint64_t b) { return __builtin_add_overflow(a, b, &a) ? unlimited : a; }

std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, kernels::row_dtype dtype,
                          const optimizer_spec& optimizer) {
  const std::uint64_t weights = bounded_product(dim, size_of(dtype));
  const std::uint64_t state = bounded_product(state_columns(optimizer, dim),
                                              static_cast<std::uint64_t>(state_buffers(optimizer)) * sizeof(float));
  return bounded_product(static_cast<std::uint64_t>(rows), bounded_sum(weights, state));
}

std::string memory_fault(const std::string& what, std::uint64_t bytes, std::uint64_t available,
                         const std::string& advice) {
  const auto text = [](std::uint64_t size) {
    constexpr std::uint64_t gib = std::uint64_t{1} << 30;
    if (size < gib) return size_text(size);
    return fmt::format("{:.1f} GiB", static_cast<double>(size) / static_cast<double>(gib));
  };
  return fmt::format("{} would take {}, and {} of memory are available; {}", what, text(bytes), text(available),
                     advice);
}

}  // namespace troupe::model
