// The dynamic loader as the backend uses it for cuDNN: returns the functions of cudnn.cpp.

#include <cudnn.h>
#include <dlfcn.h>

#include <map>
#include <string>

#include "tests/emulated_cuda/settings.hpp"

namespace {

constexpr const char* library_file = "libcudnn.so.9";

thread_local std::string loader_error;

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

#define TROUPE_EMULATED(name) \
  { #name, address_of(name) }

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> all = {TROUPE_EMULATED(cudnnCreate),
                                                   TROUPE_EMULATED(cudnnDestroy),
                                                   TROUPE_EMULATED(cudnnSetStream),
                                                   TROUPE_EMULATED(cudnnGetErrorString),
                                                   TROUPE_EMULATED(cudnnCreateTensorDescriptor),
                                                   TROUPE_EMULATED(cudnnDestroyTensorDescriptor),
                                                   TROUPE_EMULATED(cudnnSetTensor4dDescriptor),
                                                   TROUPE_EMULATED(cudnnCreateFilterDescriptor),
                                                   TROUPE_EMULATED(cudnnDestroyFilterDescriptor),
                                                   TROUPE_EMULATED(cudnnSetFilter4dDescriptor),
                                                   TROUPE_EMULATED(cudnnCreateConvolutionDescriptor),
                                                   TROUPE_EMULATED(cudnnDestroyConvolutionDescriptor),
                                                   TROUPE_EMULATED(cudnnSetConvolution2dDescriptor),
                                                   TROUPE_EMULATED(cudnnSetConvolutionGroupCount),
                                                   TROUPE_EMULATED(cudnnSetConvolutionMathType),
                                                   TROUPE_EMULATED(cudnnGetConvolutionForwardAlgorithm_v7),
                                                   TROUPE_EMULATED(cudnnConvolutionForward),
                                                   TROUPE_EMULATED(cudnnGetConvolutionBackwardDataAlgorithm_v7),
                                                   TROUPE_EMULATED(cudnnConvolutionBackwardData),
                                                   TROUPE_EMULATED(cudnnGetConvolutionBackwardFilterAlgorithm_v7),
                                                   TROUPE_EMULATED(cudnnConvolutionBackwardFilter)};
  return all;
}

}  // namespace

// Only the backend's calls arrive here: the module does not export these functions.

void* dlopen(const char* file, int) noexcept {
  static int library = 0;
  if (file != nullptr && std::string(file) == library_file && troupe::emulated_cuda::configured().has_cudnn)
    return &library;
  loader_error =
      std::string(file != nullptr ? file : "") + ": cannot open shared object file: No such file or directory";
  return nullptr;
}

void* dlsym(void*, const char* name) noexcept {
  const auto found = functions().find(name);
  if (found != functions().end()) return found->second;
  loader_error = std::string(library_file) + ": undefined symbol: " + name;
  return nullptr;
}

char* dlerror() noexcept { return loader_error.data(); }
