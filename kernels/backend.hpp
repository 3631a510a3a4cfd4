// The interface of the module `troupe_cuda`: CUDA devices and communicators between them. The module is loaded when a
// device is first used, because cuBLASLt alone takes 152 MiB.

#pragma once

#include "kernels/communicator.hpp"
#include "kernels/device.hpp"

namespace troupe::kernels {

/// Opens devices and connects them. Lives until the process ends. Thread: any.
class backend {
 public:
  virtual ~backend() = default;

  /// Returns device `number`; opens it on the first call. Throws `device_error`.
  virtual device& open(int number) = 0;

  /// Returns a new identity for a communicator.
  virtual communicator_id make_communicator_id() = 0;

  /// Starts to connect this process's devices `mine`, which get the ranks first_rank, first_rank + 1, ... of `ranks`.
  /// Does not block. Requires: no device twice. Throws `device_error`.
  virtual std::unique_ptr<communicator> connect(const communicator_id& id, std::span<device* const> mine,
                                                int first_rank, int ranks) = 0;
};

/// Name and type of the module's function that returns its backend.
inline constexpr const char* backend_symbol = "troupe_backend";
using backend_function = backend&();

/// Returns the CUDA backend; the first call loads its module. Throws `device_error` if it was not built or cannot be
/// loaded, or if no device is usable.
backend& cuda_backend();

}  // namespace troupe::kernels
