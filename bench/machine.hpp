// What this machine can do at most, measured: the rates that kernels and whole runs are held against.
//
// Each function takes the median of the calls within about half a second: what the machine keeps up, as a run has to.

#pragma once

#include <cstddef>

namespace troupe::bench {

/// Streaming copy on one core: bytes read and written per second.
double copy_rate();

/// Rows of 256 bytes read in random order from 256 MiB on each of `cores` cores at once: bytes per second of all.
double gather_rate(std::size_t cores);

/// Products of 1024 x 1024 matrices on each of `cores` cores at once: floating-point operations per second of all.
/// Cores that are threads of one physical core share its units: then two have no more than one.
double sgemm_rate(std::size_t cores);

}  // namespace troupe::bench
