// cuDNN, which is loaded when a convolution is first used: programs without convolutions need neither the library nor
// its memory.

#pragma once

#include <cudnn.h>

namespace troupe::kernels::cuda {

// The functions that the backend calls.
#define TROUPE_CUDNN_FUNCTIONS(with)                                                                                 \
  with(cudnnCreate) with(cudnnDestroy) with(cudnnSetStream) with(cudnnGetErrorString)                                \
      with(cudnnCreateTensorDescriptor) with(cudnnDestroyTensorDescriptor) with(cudnnSetTensor4dDescriptor)          \
          with(cudnnCreateFilterDescriptor) with(cudnnDestroyFilterDescriptor) with(cudnnSetFilter4dDescriptor)      \
              with(cudnnCreateConvolutionDescriptor) with(cudnnDestroyConvolutionDescriptor)                         \
                  with(cudnnSetConvolution2dDescriptor) with(cudnnSetConvolutionGroupCount)                          \
                      with(cudnnSetConvolutionMathType) with(cudnnGetConvolutionForwardAlgorithm_v7)                 \
                          with(cudnnConvolutionForward) with(cudnnGetConvolutionBackwardDataAlgorithm_v7)            \
                              with(cudnnConvolutionBackwardData) with(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
                                  with(cudnnConvolutionBackwardFilter)

/// The functions by name.
struct cudnn_library {
#define TROUPE_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a declarator
  TROUPE_CUDNN_FUNCTIONS(TROUPE_MEMBER)
#undef TROUPE_MEMBER
};

/// Returns the library, loaded at the first call. Throws `device_error` with the loader's message if that fails.
/// Thread: any.
const cudnn_library& cudnn();

/// Throws `device_error` with the name of `call`, the error and what to try, unless `code` means success. Requires: the
/// library is loaded.
void check(cudnnStatus_t code, const char* call);

}  // namespace troupe::kernels::cuda
