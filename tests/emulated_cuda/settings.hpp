// What the emulated machine is like: the environment variable TROUPE_EMULATED_CUDA, as in "devices=2,memory_mib=512".

#pragma once

#include <cstddef>

namespace troupe::emulated_cuda {

struct settings {
  int devices = 2;
  std::size_t memory_mib = 2048;  ///< of each device
  int capability = 90;            ///< capability=9.0 in the variable
  int driver = 0;                 ///< as cudaDriverGetVersion gives it, 12020 for 12.2; unless named, the runtime's
  /// Bits of the epilogues for which cuBLASLt knows no algorithm: all with epilogues=none, those that write or read a
  /// ReLU's mask with epilogues=no_mask, those that read it with epilogues=no_drelu.
  int refused_epilogues = 0;
  bool has_cudnn = true;  ///< not with cudnn=none
};

/// Read once. A setting that is not known ends the process: it would test something else.
const settings& configured();

}  // namespace troupe::emulated_cuda
