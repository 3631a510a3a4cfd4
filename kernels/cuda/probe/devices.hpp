// Interface of the module `troupe_cuda_probe`, which lists this machine's CUDA devices. A C interface: the module is
// loaded at run time and shares only this header with the program.

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

/// Fills `devices` with at most `capacity` devices and returns how many the machine has, which may be more. Returns 0
/// without devices, -1 if that is unknown; then `error` contains the reason, cut to `error_size` bytes including the
/// final zero. Creates no context and allocates no device memory. Thread: any.
using find_devices_function = int(device_facts* devices, int capacity, char* error, std::size_t error_size);

/// Name of the function, and of the module's file.
inline constexpr const char* find_devices_symbol = "troupe_cuda_find_devices";
inline constexpr const char* probe_file = "libtroupe_cuda_probe.so";

}  // namespace troupe::kernels::cuda
