// What CUDA, cuBLASLt and NCCL answer, as exceptions.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace troupe::kernels::cuda {

/// Throws `device_error` with the name of `call`, what it answered, and what to try, unless `code` says that all is
/// well. May be called from any thread.
void check(cudaError_t code, const char* call);
void check(cublasStatus_t code, const char* call);
void check(ncclResult_t code, const char* call);

}  // namespace troupe::kernels::cuda
