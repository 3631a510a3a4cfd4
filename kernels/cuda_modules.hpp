// The modules of the CUDA backend, in separate files: the same program runs on machines without them, or without CUDA.

#pragma once

#include <string>

namespace troupe::kernels {

/// Returns what this build's modules were compiled with, such as "CUDA 12.4, NCCL 2.18"; empty if it has none.
const char* cuda_modules_version();

/// Returns whether this build has the modules, or a test names one.
bool has_cuda_modules();

/// A function of a module; if null, `error` contains the reason and what to try.
struct module_symbol {
  void* address = nullptr;
  bool is_missing = false;  ///< there is no such module
  std::string error;
};

/// Loads the module `file` and looks up `symbol`. The module stays loaded, because CUDA's runtime cannot be unloaded.
/// Thread: any.
module_symbol find_in_module(const char* file, const char* symbol);

}  // namespace troupe::kernels
