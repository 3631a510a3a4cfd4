// A backend of devices other than the processor: what the module `troupe_cuda` offers. The module is loaded when a
// device is used, not before: cuBLASLt alone costs 152 MiB.

#pragma once

#include "kernels/communicator.hpp"
#include "kernels/device.hpp"

namespace troupe::kernels {

/// May be used from any thread. Lives until the process ends.
class backend {
 public:
  virtual ~backend() = default;

  /// Device `number`, opened when it is first asked for. Throws `device_error`.
  virtual device& open(int number) = 0;

  /// An identity for a communicator.
  virtual communicator_id make_communicator_id() = 0;

  /// Begins to connect the devices `mine`, each once, which have the ranks first_rank, first_rank + 1, ... among
  /// `ranks`. Throws `device_error`.
  virtual std::unique_ptr<communicator> connect(const communicator_id& id, std::span<device* const> mine,
                                                int first_rank, int ranks) = 0;
};

/// The name and type of the function in the module that gives its backend.
inline constexpr const char* backend_symbol = "troupe_backend";
using backend_function = backend&();

/// The CUDA backend; loads its module when first called. Throws `device_error` if it was not built or cannot be loaded.
backend& cuda_backend();

}  // namespace troupe::kernels
