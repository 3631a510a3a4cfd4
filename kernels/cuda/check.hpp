// Turns error codes of CUDA, cuBLASLt and NCCL into exceptions.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace troupe::kernels::cuda {

/// Returns the device that this thread has made current; -1: none yet.
int current_device();

/// Throws `device_error` with the number of the device, the name of `call`, the error and what to try, unless `code`
/// means success. `device`: the one that the call is about. Thread: any.
void check(cudaError_t code, const char* call, int device = current_device());
void check(cublasStatus_t code, const char* call);
void check(ncclResult_t code, const char* call, int device = current_device());

/// Returns the error that a call of a library on top of CUDA has met there, as in " (CUDA: unknown error)"; empty:
/// none.
std::string cuda_words();

/// Returns "CUDA device 1: ", or nothing of a number below 0.
std::string device_prefix(int device);

}  // namespace troupe::kernels::cuda
