// The clock of a trace: ticks of the CPU's time-stamp counter where that is cheap and steady, else nanoseconds. Records
// hold ticks; readers convert them with the samples stored beside them (clock_sample).

#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#include <string>
#include <string_view>
#endif

namespace troupe::trace {

/// One moment on three clocks.
struct clock_sample {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC
  std::int64_t realtime_ns = 0;   ///< CLOCK_REALTIME, since 1970
};

/// A clock that deviates from the others of the run, for tests of clock alignment: it is ahead by `offset_ns`, and
/// gains `drift_ppm` from then on.
struct clock_fault {
  std::int64_t offset_ns = 0;
  double drift_ppm = 0;
};

namespace detail {

/// Whether ticks come from the time-stamp counter: it must run at a constant rate, also while the CPU sleeps.
extern const bool has_steady_counter;
extern bool is_faulty;

std::uint64_t monotonic_now();
std::uint64_t faulty_now();

}  // namespace detail

/// The current time in ticks; never 0. Thread: any. Costs about 10 ns with a steady counter.
inline std::uint64_t ticks_now() {
  if (detail::is_faulty) [[unlikely]]
    return detail::faulty_now();
#if defined(__x86_64__)
  if (detail::has_steady_counter) [[likely]]
    return __rdtsc();
#endif
  return detail::monotonic_now();
}

/// The current time on all three clocks.
clock_sample sample_clocks();

/// Ticks per second, accurate to a few parts in 10,000: for limits and displays. Samples give the exact rate.
double ticks_per_second();

/// For tests only. Requires: no tick has been read yet.
void set_clock_fault(const clock_fault& fault);

/// An id of this boot of this machine, different from all others: the processes of one boot share one clock.
std::string this_boot();

/// Whether process `pid` of that boot exists. False if it is not the current boot of this machine.
bool is_there(std::string_view boot, std::uint32_t pid);

}  // namespace troupe::trace
