// Failing devices: every emulated call begins here, is counted, and fails where TROUPE_EMULATED_CUDA says so
// (settings.hpp).
//
// A lasting error, such as an illegal address or memory that lost bits, makes the device useless to the process: each
// later call returns the error, and the remaining work of its streams is dropped. Its events are still reached, since
// streams of other devices may wait for them; a reader of its memory then finds the old contents.

#pragma once

#include <cuda_runtime_api.h>

#include "tests/emulated_cuda/runtime.hpp"

namespace troupe::emulated_cuda {

/// Counts a call of `function` on `device`. Returns the error of this call, or the device's lasting error.
cudaError_t begin_call(const char* function, int device);

/// The same for a kernel launch on `stream`. A lasting error occurs when the kernel runs.
cudaError_t enqueue_kernel(cudaStream_t stream, work task);

/// Returns a device's lasting error; cudaSuccess if it works. Thread: any.
cudaError_t error_of(int device);

/// Returns the device of a stream or event; for null, the calling thread's device.
template <class Handle>
int device_of(const Handle* handle) {
  if (handle == nullptr) return current_device();
  if constexpr (requires { handle->device(); })
    return handle->device();
  else
    return handle->device;
}

}  // namespace troupe::emulated_cuda

/// The beginning of every emulated function; `device` is the one that it concerns.
#define TROUPE_CUDA_CALL(device)                                                                           \
  if (const cudaError_t fault = troupe::emulated_cuda::begin_call(__func__, device); fault != cudaSuccess) \
  return troupe::emulated_cuda::note(fault)
#define TROUPE_CUBLAS_CALL \
  if (begin_call(__func__, current_device()) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED
#define TROUPE_CUDNN_CALL \
  if (begin_call(__func__, current_device()) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED
#define TROUPE_NCCL_CALL(device) \
  if (begin_call(__func__, device) != cudaSuccess) return refuse(ncclUnhandledCudaError, "Cuda failure")
