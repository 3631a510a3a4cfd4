#include "trace/record/clock.hpp"

#include "base/host.hpp"

#include <chrono>
#include <ctime>
#include <limits>
#include <thread>
#if defined(__x86_64__)
#include <cpuid.h>
#include <fmt/format.h>
#include <unistd.h>
#endif

namespace troupe::trace {

namespace {

std::int64_t read_clock(clockid_t which) {
  timespec now{};
  ::clock_gettime(which, &now);
  constexpr std::int64_t ns_per_second = 1'000'000'000;
  return std::int64_t{now.tv_sec} * ns_per_second + now.tv_nsec;
}

bool find_steady_counter() {
#if defined(__x86_64__)
  // Intel's and AMD's manuals: leaf 8000'0007h, EDX bit 8, "invariant TSC".
  constexpr unsigned power_management_leaf = 0x8000'0007;
  constexpr unsigned invariant_bit = 1U << 8;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(power_management_leaf, &a, &b, &c, &d) != 0 && (d & invariant_bit) != 0;
#else
  return false;
#endif
}

clock_fault fault;
clock_sample fault_begin;

std::uint64_t true_ticks() {
#if defined(__x86_64__)
  if (detail::has_steady_counter) return __rdtsc();
#endif
  return detail::monotonic_now();
}

/// The thread may be descheduled between two clock reads, so the quickest of several attempts is used. An attempt that
/// took no longer than reads without a system call ends the search.
clock_sample true_sample() {
  clock_sample best;
  std::uint64_t quickest = std::numeric_limits<std::uint64_t>::max();
  constexpr int attempts = 4;
  constexpr std::uint64_t quick = 400;  // ticks, or nanoseconds
  for (int i = 0; i < attempts; ++i) {
    const std::uint64_t begin = true_ticks();
    const std::int64_t monotonic = read_clock(CLOCK_MONOTONIC);
    const std::int64_t realtime = read_clock(CLOCK_REALTIME);
    const std::uint64_t took = true_ticks() - begin;
    if (took >= quickest) continue;
    quickest = took;
    best = {begin + took / 2, monotonic, realtime};
    if (took <= quick) break;
  }
  return best;
}

/// Returns what a faulty clock shows at the true time `now`; the fault began at `begin`.
std::int64_t with_fault(std::int64_t now, std::int64_t begin, double offset) {
  constexpr double million = 1e6;
  return now + static_cast<std::int64_t>(offset + static_cast<double>(now - begin) * fault.drift_ppm / million);
}

std::uint64_t faulty(std::uint64_t ticks) {
  constexpr double ns_per_second = 1e9;
  const double offset = static_cast<double>(fault.offset_ns) * ticks_per_second() / ns_per_second;
  return static_cast<std::uint64_t>(
      with_fault(static_cast<std::int64_t>(ticks), static_cast<std::int64_t>(fault_begin.ticks), offset));
}

}  // namespace

namespace detail {

const bool has_steady_counter = find_steady_counter();
bool is_faulty = false;

std::uint64_t monotonic_now() { return static_cast<std::uint64_t>(read_clock(CLOCK_MONOTONIC)); }

std::uint64_t faulty_now() { return faulty(true_ticks()); }

}  // namespace detail

clock_sample sample_clocks() {
  if (!detail::is_faulty) return true_sample();
  const auto offset = static_cast<double>(fault.offset_ns);
  clock_sample now = true_sample();
  now.ticks = faulty(now.ticks);
  now.monotonic_ns = with_fault(now.monotonic_ns, fault_begin.monotonic_ns, offset);
  now.realtime_ns = with_fault(now.realtime_ns, fault_begin.realtime_ns, offset);
  return now;
}

double ticks_per_second() {
  static const double rate = [] {
    constexpr double ns_per_second = 1e9;
    if (!detail::has_steady_counter) return ns_per_second;
    const clock_sample begin = true_sample();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const clock_sample end = true_sample();
    return static_cast<double>(end.ticks - begin.ticks) / static_cast<double>(end.monotonic_ns - begin.monotonic_ns) *
           ns_per_second;
  }();
  return rate;
}

void set_clock_fault(const clock_fault& wanted) {
  ticks_per_second();
  fault = wanted;
  fault_begin = true_sample();
  detail::is_faulty = true;
}

std::string this_boot() {
  std::string id = boot_id();
  // A clock with an injected fault is shared with no other process.
  if (detail::is_faulty) id += fmt::format("-{}", ::getpid());
  return id;
}

bool is_there(std::string_view boot, std::uint32_t pid) { return boot == this_boot() && troupe::is_alive(pid); }

}  // namespace troupe::trace
