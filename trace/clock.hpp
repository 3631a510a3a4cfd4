// The clock of a trace: ticks of the processor's time-stamp counter where that is cheap and steady, else nanoseconds.
// Records hold ticks; whoever reads them converts by the samples that lie beside them (clock_sample).

#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace troupe::trace {

/// The same moment on three clocks.
struct clock_sample {
  std::uint64_t ticks = 0;
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC
  std::int64_t realtime_ns = 0;   ///< CLOCK_REALTIME, since 1970
};

/// A clock that runs otherwise than the others of the run, for tests of how clocks are aligned: what this process reads
/// is ahead by `offset_ns`, and gains `drift_ppm` from then on.
struct clock_fault {
  std::int64_t offset_ns = 0;
  double drift_ppm = 0;
};

namespace detail {

/// Whether ticks are those of the time-stamp counter: it must run at one rate, and on while the processor sleeps.
extern const bool has_steady_counter;
extern bool is_faulty;

std::uint64_t monotonic_now();
std::uint64_t faulty_now();

}  // namespace detail

/// Now, in ticks; never 0. From any thread; some 10 ns where there is a steady counter.
inline std::uint64_t ticks_now() {
  if (detail::is_faulty) [[unlikely]]
    return detail::faulty_now();
#if defined(__x86_64__)
  if (detail::has_steady_counter) [[likely]]
    return __rdtsc();
#endif
  return detail::monotonic_now();
}

/// Now, on all clocks.
clock_sample sample_clocks();

/// Ticks of a second, within a few parts in 10,000: for bounds and displays; samples tell it exactly.
double ticks_per_second();

/// Before any tick is read, by tests only.
void set_clock_fault(const clock_fault& fault);

}  // namespace troupe::trace
