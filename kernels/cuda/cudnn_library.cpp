// Loads cuDNN, and turns its errors into exceptions.

#include "kernels/cuda/cudnn_library.hpp"

#include <dlfcn.h>

#include <string>

#include "kernels/cuda/check.hpp"
#include "kernels/device.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* library_file = "libcudnn.so.9";

[[noreturn]] void fail_to_load() {
  const char* const text = dlerror();
  throw device_error(std::string("convolutions on a CUDA device need cuDNN 9, which could not be loaded: ") +
                     (text != nullptr ? text : "unknown error of the dynamic loader") +
                     "; install cuDNN 9, name its folder in LD_LIBRARY_PATH, or try --device cpu");
}

cudnn_library load() {
  void* const file = dlopen(library_file, RTLD_NOW | RTLD_LOCAL);  // never unloaded: its functions may be in use until
                                                                   // the end
  if (file == nullptr) fail_to_load();
  cudnn_library loaded;
#define TROUPE_FIND(name)                                                    \
  loaded.name = reinterpret_cast<decltype(loaded.name)>(dlsym(file, #name)); \
  if (loaded.name == nullptr) fail_to_load();
  TROUPE_CUDNN_FUNCTIONS(TROUPE_FIND)
#undef TROUPE_FIND
  return loaded;
}

struct meaning_of_status {
  device_error::reason why;
  const char* hint;
};

meaning_of_status meaning_of(cudnnStatus_t code) {
  using enum device_error::reason;
  constexpr int category = 1000;                   // CUDNN_STATUS_FULL_ERROR_CODE
  constexpr int sublibrary_loading_failed = 1008;  // the first versions' headers do not name it
  switch (static_cast<int>(code)) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return {memory, "; the memory is full; try smaller batches (--batch-size)"};
    case CUDNN_STATUS_NOT_INITIALIZED:
      return {failed, "; cuDNN could not start: the driver may be too old, or the device's memory full"};
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
    case sublibrary_loading_failed:
      return {refused, "; all of cuDNN's libraries must be of one version; install cuDNN 9 anew, or try --device cpu"};
    default:
      break;
  }
  switch (code / category) {
    case CUDNN_STATUS_BAD_PARAM / category:
    case CUDNN_STATUS_NOT_SUPPORTED / category:
      return {refused,
              "; images may be too large for cuDNN: a batch has less than 2^31 numbers; try smaller batches "
              "(--batch-size), or "
              "--device cpu"};
    case CUDNN_STATUS_INTERNAL_ERROR / category:
    case CUDNN_STATUS_EXECUTION_FAILED / category:
      return {failed, "; a kernel failed and the device is of no more use to this process; start again, and report it"};
    default:
      return {failed, ""};
  }
}

}  // namespace

const cudnn_library& cudnn() {
  static const cudnn_library loaded = load();
  return loaded;
}

void check(cudnnStatus_t code, const char* call) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  const meaning_of_status meaning = meaning_of(code);
  throw device_error(device_prefix(current_device()) + call + ": " + cudnn().cudnnGetErrorString(code) +
                         cuda_error_text() + meaning.hint,
                     meaning.why);
}

}  // namespace troupe::kernels::cuda
