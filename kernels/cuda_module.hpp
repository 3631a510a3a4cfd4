// The modules of the CUDA backend, loaded at run time from the program's own folder and from nowhere else: who can
// write there can write the program. The build links them to where its tests and benchmarks lie. For tests, the
// environment variable TROUPE_CUDA_MODULE names one file that is taken for all of them, even if none was built.

#pragma once

#include <string>

namespace troupe::kernels {

/// Whether there are modules to look for.
bool cuda_built();

/// A function in a module; `error` says why there is none, and what to try.
struct cuda_symbol {
  void* address = nullptr;
  std::string error;
};

/// Loads the module `file`, which stays loaded: CUDA's runtime does not survive being unloaded. May be called from any
/// thread.
cuda_symbol find_cuda_symbol(const char* file, const char* symbol);

}  // namespace troupe::kernels
