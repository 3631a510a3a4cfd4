// The CUDA runtime's devices, versions and errors.

#include <cstdio>
#include <string>

#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#include "tests/emulated_cuda/settings.hpp"

namespace troupe::emulated_cuda {
namespace {

thread_local int chosen_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

/// Like the cards of one host: the first bytes are the same, the last one is the card's number.
cudaUUID_t uuid_of(int number) {
  cudaUUID_t uuid{};
  std::snprintf(uuid.bytes, sizeof uuid.bytes, "emulated card");
  uuid.bytes[sizeof uuid.bytes - 1] = static_cast<char>(number);
  return uuid;
}

}  // namespace

cudaError_t usable() {
  if (configured().driver / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  return configured().devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

int current_device() { return chosen_device; }

cudaError_t note(cudaError_t code) {
  if (code != cudaSuccess && code != cudaErrorNotReady) last_error = code;
  return code;
}

std::string device_identity(int number) {
  const cudaUUID_t uuid = uuid_of(number);
  return {uuid.bytes, sizeof uuid.bytes};
}

}  // namespace troupe::emulated_cuda

using namespace troupe::emulated_cuda;

cudaError_t cudaGetDeviceCount(int* count) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  const cudaError_t code = troupe::emulated_cuda::usable();
  *count = code == cudaSuccess ? troupe::emulated_cuda::configured().devices : 0;
  return troupe::emulated_cuda::note(code);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess)
    return troupe::emulated_cuda::note(code);
  if (device < 0 || device >= troupe::emulated_cuda::configured().devices)
    return troupe::emulated_cuda::note(cudaErrorInvalidDevice);
  TROUPE_CUDA_CALL(device);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated card %d", device);
  properties->uuid = troupe::emulated_cuda::uuid_of(device);
  properties->totalGlobalMem = troupe::emulated_cuda::configured().memory_mib << 20;
  properties->major = troupe::emulated_cuda::configured().capability / 10;
  properties->minor = troupe::emulated_cuda::configured().capability % 10;
  properties->multiProcessorCount = 4;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerBlock = 48 << 10;
  properties->warpSize = 32;
  properties->pciBusID = device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess)
    return troupe::emulated_cuda::note(code);
  if (device < 0 || device >= troupe::emulated_cuda::configured().devices)
    return troupe::emulated_cuda::note(cudaErrorInvalidDevice);
  TROUPE_CUDA_CALL(device);
  troupe::emulated_cuda::chosen_device = device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = troupe::emulated_cuda::configured().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  if (const cudaError_t code = error_of(current_device()); code != cudaSuccess) return code;
  const cudaError_t code = troupe::emulated_cuda::last_error;
  troupe::emulated_cuda::last_error = cudaSuccess;
  return code;
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorUnknown:
      return "unknown error";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    default:
      return "an error that is not emulated";
  }
}
