// Turns error codes of CUDA, cuBLASLt and NCCL into exceptions.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace troupe::kernels::cuda {

/// Throws `device_error` with the name of `call`, the error and what to try, unless `code` means success. Thread: any.
void check(cudaError_t code, const char* call);
void check(cublasStatus_t code, const char* call);
void check(ncclResult_t code, const char* call);

}  // namespace troupe::kernels::cuda
