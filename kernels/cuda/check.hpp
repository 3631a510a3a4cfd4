// Turns error codes of CUDA, cuBLASLt and NCCL into exceptions.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace troupe::kernels::cuda {

/// Returns the device that this thread has made current, or -1.
int current_device();

/// Throws `device_error` with the device's number, the name of `call`, the error and what to try, unless `code` means
/// success. `device`: the call's. Thread: any.
void check(cudaError_t code, const char* call, int device = current_device());
void check(cublasStatus_t code, const char* call);
void check(ncclResult_t code, const char* call, int device = current_device());

/// Returns the CUDA error behind a failed call of another library, as in " (CUDA: unknown error)"; empty without one.
std::string cuda_error_text();

/// Returns "CUDA device 1: ", or nothing for a number below 0.
std::string device_prefix(int device);

}  // namespace troupe::kernels::cuda
