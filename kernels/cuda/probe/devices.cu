// Lists the CUDA devices of this machine.

#include "kernels/cuda/probe/devices.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>

namespace troupe::kernels::cuda {
namespace {

/// Writes to `error` why there is no count; returns 0 if there is no device, -1 if that is unknown.
int failure(cudaError_t code, char* error, std::size_t error_size) {
  int driver = 0;
  int runtime = 0;
  const bool known = cudaDriverGetVersion(&driver) == cudaSuccess && cudaRuntimeGetVersion(&runtime) == cudaSuccess;
  if (known && driver == 0) {
    std::snprintf(error, error_size, "no NVIDIA driver is installed");
    return 0;
  }
  if (known && code == cudaErrorInsufficientDriver) {
    std::snprintf(error, error_size,
                  "the NVIDIA driver is too old: it knows CUDA up to %d.%d, and this program was built with CUDA "
                  "%d.%d; update the driver, or build with an older toolkit",
                  driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  } else if (code == cudaErrorNoDevice) {
    std::snprintf(error, error_size, "no CUDA device");
    return 0;
  } else {
    std::snprintf(error, error_size, "%s", cudaGetErrorString(code));
  }
  return -1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int troupe_cuda_find_devices(device_facts* devices, int capacity,
                                                                               char* error, std::size_t error_size) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) return failure(code, error, error_size);
  if (count == 0) return failure(cudaErrorNoDevice, error, error_size);
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
