// What the emulated machine is like: the environment variable TROUPE_EMULATED_CUDA, as in "devices=2,memory_mib=512".

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
  std::string function;     ///< as in cudaMemcpyAsync; `kernel` for launches, `any` for all
  std::uint64_t at = 0;     ///< which of its calls, from 1
  int device = any_device;  ///< only calls about this device count
  cudaError_t code = cudaErrorUnknown;
  bool lasts = false;  ///< the device is of no more use afterwards; else this call alone fails, and does nothing
};

struct settings {
  int devices = 2;
  std::size_t memory_mib = 2048;  ///< of each device
  int capability = 90;            ///< capability=9.0 in the variable
  int driver = 0;                 ///< as cudaDriverGetVersion gives it, 12020 for 12.2; unless named, the runtime's
  /// Bits of the epilogues for which cuBLASLt knows no algorithm: all with epilogues=none, those that write or read a
  /// ReLU's mask with epilogues=no_mask, those that read it with epilogues=no_drelu.
  int refused_epilogues = 0;
  bool has_cudnn = true;  ///< not with cudnn=none
  /// One for each fail=FUNCTION@CALL[/DEVICE][:ERROR], as in fail=cudaMemcpyAsync@17 and
  /// fail=kernel@40/1:cudaErrorIllegalAddress, and for each lose=DEVICE@CALL, after which all calls about the device
  /// answer that it is gone. Calls are counted in each process. Functions of other libraries than CUDA's runtime fail
  /// with an error of their own. cudaErrorMemoryAllocation is for all later calls of the function, too.
  std::vector<planned_fault> faults;
  std::uint64_t hanging_sum = 0;  ///< hang=3: each communicator's third all-reduce is never over, until it is aborted
  /// counts=FILE: each process writes into FILE.PID, at its end, how often it has called which function.
  std::string counts_file;
};

/// Read once. A setting that is not known ends the process: it would test something else.
const settings& configured();

}  // namespace troupe::emulated_cuda
