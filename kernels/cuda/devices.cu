// The CUDA devices of this machine, as the runtime sees them.

#include "kernels/cuda/devices.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>

namespace troupe::kernels::cuda {
namespace {

int failure(cudaError_t code, char* error, std::size_t error_size) {
  int driver_version = 0;
  const bool no_driver = cudaDriverGetVersion(&driver_version) == cudaSuccess && driver_version == 0;
  std::snprintf(error, error_size, "%s", no_driver ? "no NVIDIA driver is installed" : cudaGetErrorString(code));
  return -1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int troupe_cuda_find_devices(device_facts* devices, int capacity,
                                                                               char* error, std::size_t error_size) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) return failure(code, error, error_size);
  for (int i = 0; i < count && i < capacity; ++i) {
    cudaDeviceProp properties;
    const cudaError_t code = cudaGetDeviceProperties(&properties, i);
    if (code != cudaSuccess) return failure(code, error, error_size);
    std::snprintf(devices[i].name, sizeof devices[i].name, "%s", properties.name);
    devices[i].memory_bytes = properties.totalGlobalMem;
    devices[i].compute_major = properties.major;
    devices[i].compute_minor = properties.minor;
  }
  return count;
}

}  // namespace troupe::kernels::cuda
