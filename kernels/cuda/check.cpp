// Errors of CUDA, cuBLASLt and NCCL, each with what to try.

#include "kernels/cuda/check.hpp"

#include <string>

#include "kernels/device.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* newer_driver = "install a newer NVIDIA driver";
constexpr const char* no_code =
    "this build has no code for the device or its driver; set CMAKE_CUDA_ARCHITECTURES when building";
constexpr const char* kernel_failed =
    "a kernel failed and the device is of no more use to this process; start again, and report it";
constexpr const char* device_taken =
    "the device is faulty or taken by another process; look at nvidia-smi, or choose another one";
constexpr const char* no_support = "the device does not support the product; try --matmul-precision f32";

template <class Code>
struct hint {
  Code code;
  const char* text;
};

constexpr hint<cudaError_t> cuda_hints[] = {
    {cudaErrorMemoryAllocation, "try a smaller --batch-size, more --devices, or --server-device cpu"},
    {cudaErrorNoDevice,
     "the machine has no CUDA device, or CUDA_VISIBLE_DEVICES hides it; run on the processor instead"},
    {cudaErrorInvalidDevice, "there is no device of this number; see which ones nvidia-smi lists"},
    {cudaErrorInsufficientDriver, newer_driver},
    {cudaErrorSystemDriverMismatch, newer_driver},
    {cudaErrorNoKernelImageForDevice, no_code},
    {cudaErrorUnsupportedPtxVersion, no_code},
    {cudaErrorIllegalAddress, kernel_failed},
    {cudaErrorMisalignedAddress, kernel_failed},
    {cudaErrorLaunchFailure, kernel_failed},
    {cudaErrorLaunchTimeout, kernel_failed},
    {cudaErrorHardwareStackError, kernel_failed},
    {cudaErrorIllegalInstruction, kernel_failed},
    {cudaErrorECCUncorrectable, device_taken},
    {cudaErrorDevicesUnavailable, device_taken},
};

constexpr hint<cublasStatus_t> cublas_hints[] = {
    {CUBLAS_STATUS_ALLOC_FAILED, "the device's memory is full; try a smaller --batch-size"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "cuBLASLt could not start: the driver may be too old, or the device's memory full"},
    {CUBLAS_STATUS_ARCH_MISMATCH, no_support},
    {CUBLAS_STATUS_NOT_SUPPORTED, no_support},
    {CUBLAS_STATUS_EXECUTION_FAILED, kernel_failed},
    {CUBLAS_STATUS_INTERNAL_ERROR, kernel_failed},
};

constexpr hint<ncclResult_t> nccl_hints[] = {
    {ncclUnhandledCudaError, "a device failed, or its memory is full; NCCL_DEBUG=INFO tells more"},
    {ncclSystemError,
     "the network or shared memory failed; NCCL_DEBUG=INFO tells more, NCCL_SOCKET_IFNAME chooses the network"},
    {ncclRemoteError, "another process ended or cannot be reached"},
    {ncclInvalidUsage, "are two ranks on one device? Each needs its own"},
    {ncclInternalError, "NCCL_DEBUG=INFO tells more"},
};

template <class Hints, class Code>
[[noreturn]] void fail(const char* call, const char* answer, const Hints& hints, Code code) {
  std::string text = std::string(call) + ": " + answer;
  for (const auto& one : hints)
    if (one.code == code) text += std::string("; ") + one.text;
  throw device_error(text);
}

}  // namespace

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call does not report it again
  fail(call, cudaGetErrorString(code), cuda_hints, code);
}

void check(cublasStatus_t code, const char* call) {
  if (code != CUBLAS_STATUS_SUCCESS) fail(call, cublasLtGetStatusString(code), cublas_hints, code);
}

void check(ncclResult_t code, const char* call) {
  if (code != ncclSuccess && code != ncclInProgress) fail(call, ncclGetErrorString(code), nccl_hints, code);
}

}  // namespace troupe::kernels::cuda
