// This machine's measured limits, with which kernels and whole runs are compared.
//
// Each function uses the median of the calls within about half a second: a rate that the machine sustains, as a run
// must.

#pragma once

#include <cstddef>

namespace troupe::bench {

/// Streaming copy on one core: bytes read and written per second.
double copy_rate();

/// Rows of 256 bytes read in random order from 256 MiB on each of `cores` cores at once: bytes per second of all.
double gather_rate(std::size_t cores);

/// Products of 1024 x 1024 matrices on each of `cores` cores at once: floating-point operations per second of all.
/// Cores that are threads of one physical core share its units: two of them compute no more than one.
double sgemm_rate(std::size_t cores);

}  // namespace troupe::bench
