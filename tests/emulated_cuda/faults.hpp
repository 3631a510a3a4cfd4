// Devices that fail: every call of the emulation begins here, is counted, and fails where TROUPE_EMULATED_CUDA says so
// (settings.hpp).
//
// After an error that lasts, as of an illegal address or of memory that lost bits, the device is of no more use to the
// process: each later call answers with it, and what its streams had still to do is not done. Its events are reached
// all the same, since streams of other devices may wait for them: who reads its memory then finds what was there
// before.

#pragma once

#include <cuda_runtime_api.h>

#include "tests/emulated_cuda/runtime.hpp"

namespace troupe::emulated_cuda {

/// Counts a call of `function` on `device`. Returns its error: that of this call, or the one that the device has.
cudaError_t begin_call(const char* function, int device);

/// The same for the launch of a kernel, which goes on `stream`. An error that lasts comes when the kernel runs.
cudaError_t enqueue_kernel(cudaStream_t stream, work task);

/// Returns the error that lasts of a device; none: it works. Thread: any.
cudaError_t error_of(int device);

/// The device that a stream or event is of; without one, the calling thread's.
template <class Handle>
int device_of(const Handle* handle) {
  if (handle == nullptr) return current_device();
  if constexpr (requires { handle->device(); })
    return handle->device();
  else
    return handle->device;
}

}  // namespace troupe::emulated_cuda

/// What functions begin with; `device` is the one that they are about.
#define TROUPE_CUDA_CALL(device)                                                                           \
  if (const cudaError_t fault = troupe::emulated_cuda::begin_call(__func__, device); fault != cudaSuccess) \
  return troupe::emulated_cuda::note(fault)
#define TROUPE_CUBLAS_CALL \
  if (begin_call(__func__, current_device()) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED
#define TROUPE_CUDNN_CALL \
  if (begin_call(__func__, current_device()) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED
#define TROUPE_NCCL_CALL(device) \
  if (begin_call(__func__, device) != cudaSuccess) return refuse(ncclUnhandledCudaError, "Cuda failure")
