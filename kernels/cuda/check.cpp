// The errors that users meet, each with what to try.

#include "kernels/cuda/check.hpp"

#include <string>

#include "kernels/device.hpp"

namespace troupe::kernels::cuda {
namespace {

const char* hint_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "try a smaller --batch-size, more --devices, or --server-device cpu";
    case cudaErrorNoDevice:
      return "the machine has no CUDA device, or CUDA_VISIBLE_DEVICES hides it; run on the processor instead";
    case cudaErrorInvalidDevice:
      return "there is no device of this number; see which ones nvidia-smi lists";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
      return "install a newer NVIDIA driver";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "this build has no code for the device or its driver; set CMAKE_CUDA_ARCHITECTURES when building";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
      return "a kernel failed and the device is of no more use to this process; start again, and report it";
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
      return "the device is faulty or taken by another process; look at nvidia-smi, or choose another one";
    default:
      return "";
  }
}

const char* hint_of(cublasStatus_t code) {
  switch (code) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the device's memory is full; try a smaller --batch-size";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "cuBLASLt could not start: the driver may be too old, or the device's memory full";
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the device does not support the product; try --matmul-precision f32";
    case CUBLAS_STATUS_EXECUTION_FAILED:
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "a kernel failed and the device is of no more use to this process; start again, and report it";
    default:
      return "";
  }
}

const char* hint_of(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError:
      return "a device failed, or its memory is full; NCCL_DEBUG=INFO tells more";
    case ncclSystemError:
      return "the network or shared memory failed; NCCL_DEBUG=INFO tells more, NCCL_SOCKET_IFNAME chooses the network";
    case ncclRemoteError:
      return "another process ended or cannot be reached";
    case ncclInvalidUsage:
      return "are two ranks on one device? Each needs its own";
    case ncclInternalError:
      return "NCCL_DEBUG=INFO tells more";
    default:
      return "";
  }
}

[[noreturn]] void fail(const char* call, const char* answer, const char* hint) {
  throw device_error(std::string(call) + ": " + answer + (*hint ? "; " : "") + hint);
}

}  // namespace

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // an error that is told need not be found again by the next call
  fail(call, cudaGetErrorString(code), hint_of(code));
}

void check(cublasStatus_t code, const char* call) {
  if (code != CUBLAS_STATUS_SUCCESS) fail(call, cublasLtGetStatusString(code), hint_of(code));
}

void check(ncclResult_t code, const char* call) {
  if (code != ncclSuccess && code != ncclInProgress) fail(call, ncclGetErrorString(code), hint_of(code));
}

}  // namespace troupe::kernels::cuda
