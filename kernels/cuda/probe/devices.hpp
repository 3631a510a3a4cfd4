// What the module `troupe_cuda_probe` tells about the CUDA devices of this machine. A C interface: the module is loaded
// at run time and shares nothing but this header with the program.

#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cuda {

struct device_facts {
  char name[256];
  std::uint64_t memory_bytes;
  int compute_major;
  int compute_minor;
};

/// Fills `devices` with at most `capacity` devices and returns how many the machine has, which may be more. If it has
/// none, or -1 is returned because they cannot be told, the reason is left in `error`, cut to `error_size` bytes with
/// the closing zero. Creates no context and allocates nothing on any device. May be called from any thread.
using find_devices_function = int(device_facts* devices, int capacity, char* error, std::size_t error_size);

/// The name and file under which the program finds the function.
inline constexpr const char* find_devices_symbol = "troupe_cuda_find_devices";
inline constexpr const char* probe_file = "libtroupe_cuda_probe.so";

}  // namespace troupe::kernels::cuda
