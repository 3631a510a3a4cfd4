// Errors of CUDA, cuBLASLt and NCCL, each with what to try.

#include "kernels/cuda/check.hpp"

#include "kernels/device.hpp"

namespace troupe::kernels::cuda {
namespace {

using reason = device_error::reason;

constexpr const char* newer_driver = "install a newer NVIDIA driver";
constexpr const char* no_code =
    "this build has no code for the device or its driver; set CMAKE_CUDA_ARCHITECTURES when building";
constexpr const char* kernel_failed =
    "a kernel failed and the device is of no more use to this process; start again, and report it";
constexpr const char* device_taken =
    "the device is faulty or taken by another process; look at nvidia-smi, or choose another one";
constexpr const char* device_lost =
    "the device or its driver has failed; nvidia-smi and the kernel's log (dmesg, Xid) may show why; start again, or "
    "choose another one";
constexpr const char* no_support =
    "the device does not support the product; try products in f32 (--matmul-precision f32)";
constexpr const char* of_program = "this is an error of the program; please report it";

/// What an error means. An error in no table means that the device is lost.
template <class Code>
struct meaning {
  Code code;
  reason why;
  const char* hint;
};

constexpr meaning<cudaError_t> cuda_errors[] = {
    {cudaErrorMemoryAllocation, reason::memory,
     "try smaller batches (--batch-size), more --devices, or --server-device cpu"},
    {cudaErrorNoDevice, reason::refused,
     "the machine has no CUDA device, or CUDA_VISIBLE_DEVICES hides it; run on the processor instead"},
    {cudaErrorInvalidDevice, reason::refused, "there is no device of this number; see which ones nvidia-smi lists"},
    {cudaErrorInsufficientDriver, reason::refused, newer_driver},
    {cudaErrorSystemDriverMismatch, reason::refused, newer_driver},
    {cudaErrorNoKernelImageForDevice, reason::refused, no_code},
    {cudaErrorUnsupportedPtxVersion, reason::refused, no_code},
    {cudaErrorInvalidValue, reason::refused, of_program},
    {cudaErrorInvalidConfiguration, reason::refused, of_program},
    {cudaErrorInvalidResourceHandle, reason::refused, of_program},
    {cudaErrorStreamCaptureUnsupported, reason::refused, of_program},
    {cudaErrorStreamCaptureIsolation, reason::refused, of_program},
    {cudaErrorIllegalAddress, reason::failed, kernel_failed},
    {cudaErrorMisalignedAddress, reason::failed, kernel_failed},
    {cudaErrorLaunchFailure, reason::failed, kernel_failed},
    {cudaErrorLaunchTimeout, reason::failed, kernel_failed},
    {cudaErrorHardwareStackError, reason::failed, kernel_failed},
    {cudaErrorIllegalInstruction, reason::failed, kernel_failed},
    {cudaErrorECCUncorrectable, reason::failed, device_taken},
    {cudaErrorDevicesUnavailable, reason::failed, device_taken},
};

constexpr meaning<cublasStatus_t> cublas_errors[] = {
    {CUBLAS_STATUS_ALLOC_FAILED, reason::memory, "the device's memory is full; try smaller batches (--batch-size)"},
    {CUBLAS_STATUS_NOT_INITIALIZED, reason::failed,
     "cuBLASLt could not start: the driver may be too old, or the device's memory full"},
    {CUBLAS_STATUS_ARCH_MISMATCH, reason::refused, no_support},
    {CUBLAS_STATUS_NOT_SUPPORTED, reason::refused, no_support},
    {CUBLAS_STATUS_INVALID_VALUE, reason::refused, of_program},
    {CUBLAS_STATUS_EXECUTION_FAILED, reason::failed, kernel_failed},
    {CUBLAS_STATUS_INTERNAL_ERROR, reason::failed, kernel_failed},
};

constexpr meaning<ncclResult_t> nccl_errors[] = {
    {ncclUnhandledCudaError, reason::failed, "a device failed, or its memory is full; NCCL_DEBUG=INFO shows more"},
    {ncclSystemError, reason::failed,
     "the network or shared memory failed; NCCL_DEBUG=INFO shows more, NCCL_SOCKET_IFNAME chooses the network"},
    {ncclRemoteError, reason::given_up, "another process ended or cannot be reached"},
    {ncclInvalidArgument, reason::refused, of_program},
    {ncclInvalidUsage, reason::refused, "are two ranks on one device? Each needs its own"},
    {ncclInternalError, reason::failed, "NCCL_DEBUG=INFO shows more"},
};

template <class Errors, class Code>
[[noreturn]] void fail(int device, const char* call, const std::string& answer, const Errors& errors, Code code) {
  const std::string text = device_prefix(device) + call + ": " + answer + "; ";
  for (const auto& one : errors)
    if (one.code == code) throw device_error(text + one.hint, one.why);
  throw device_error(text + device_lost, reason::failed);
}

}  // namespace

std::string device_prefix(int device) {
  return device < 0 ? std::string() : "CUDA device " + std::to_string(device) + ": ";
}

void check(cudaError_t code, const char* call, int device) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call does not report it again
  fail(device, call, cudaGetErrorString(code), cuda_errors, code);
}

std::string cuda_error_text() {
  const cudaError_t code = cudaGetLastError();
  return code == cudaSuccess ? std::string() : std::string(" (CUDA: ") + cudaGetErrorString(code) + ")";
}

void check(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  fail(current_device(), call, cublasLtGetStatusString(code) + cuda_error_text(), cublas_errors, code);
}

void check(ncclResult_t code, const char* call, int device) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  fail(device, call, ncclGetErrorString(code) + cuda_error_text(), nccl_errors, code);
}

}  // namespace troupe::kernels::cuda
