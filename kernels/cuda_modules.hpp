// The modules of the CUDA backend, which are files of their own: a machine without them, or without CUDA, runs the same
// program.

#pragma once

#include <string>

namespace troupe::kernels {

/// Returns what the modules of this build were compiled with, such as "CUDA 12.4, NCCL 2.18"; empty: it has none.
const char* cuda_modules_version();

/// Returns whether this build has the modules, or a test names one.
bool has_cuda_modules();

/// A function of a module; if null, `error` says why and what to try.
struct module_symbol {
  void* address = nullptr;
  bool is_missing = false;  ///< there is no such module
  std::string error;
};

/// Loads the module `file` and looks up `symbol`. The module stays loaded, because CUDA's runtime cannot be unloaded.
/// Thread: any.
module_symbol find_in_module(const char* file, const char* symbol);

}  // namespace troupe::kernels
