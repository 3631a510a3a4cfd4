// The emulated machine, described by the environment variable TROUPE_EMULATED_CUDA, as in "devices=2,memory_mib=512".

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::emulated_cuda {

inline constexpr const char* any_function = "any";
inline constexpr int any_device = -1;

/// A call that fails.
struct planned_fault {
  std::string function;     ///< such as cudaMemcpyAsync; `kernel` for launches, `any` for all
  std::uint64_t at = 0;     ///< the index of the failing call, from 1
  int device = any_device;  ///< only calls for this device count
  cudaError_t code = cudaErrorUnknown;
  bool lasts = false;  ///< the device is useless afterwards; else only this call fails, without effect
};

struct settings {
  int devices = 2;
  std::size_t memory_mib = 2048;  ///< of each device
  int capability = 90;            ///< capability=9.0 in the variable
  int driver = 0;                 ///< as cudaDriverGetVersion returns it, 12020 for 12.2; default: the runtime's
  /// Bits of the epilogues for which cuBLASLt has no algorithm: all with epilogues=none, those that write or read a
  /// ReLU's mask with epilogues=no_mask, those that read it with epilogues=no_drelu.
  int refused_epilogues = 0;
  bool has_cudnn = true;  ///< false with cudnn=none
  /// One for each fail=FUNCTION@CALL[/DEVICE][:ERROR], as in fail=cudaMemcpyAsync@17 and
  /// fail=kernel@40/1:cudaErrorIllegalAddress, and one for each lose=DEVICE@CALL, after which all calls about the
  /// device report that it is gone. Calls are counted per process. Functions of libraries other than CUDA's runtime
  /// fail with an error of their own. cudaErrorMemoryAllocation also applies to all later calls of the function.
  std::vector<planned_fault> faults;
  std::uint64_t hanging_sum = 0;  ///< hang=3: each communicator's third all-reduce never ends, until it is aborted
  /// counts=FILE: at its end, each process writes to FILE.PID how often it has called each function.
  std::string counts_file;
};

/// Read once. An unknown setting ends the process: the test would not test what it claims.
const settings& configured();

}  // namespace troupe::emulated_cuda
