// What this machine can do at most, measured: the rates that kernels and whole runs are held against.
//
// Each function takes the best of many tries within about half a second, so that another program's work in between does
// not count.

#pragma once

#include <cstddef>

namespace troupe::bench {

/// Streaming copy on one core: bytes read and written per second.
double copy_rate();

/// Rows of 256 bytes read in random order from 256 MiB on each of `cores` cores at once: bytes per second of all.
double gather_rate(std::size_t cores);

/// Products of 1024 x 1024 matrices on one core: floating-point operations per second.
double sgemm_rate();

}  // namespace troupe::bench
