// The hardware of this machine: its processor, and its CUDA devices if this build has the CUDA backend.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

/// One CUDA device; its number is its index in the report.
struct cuda_device {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0;  ///< compute capability, as in 9.0
  int compute_minor = 0;
};

/// Lowest compute capability that the CUDA backend supports.
inline constexpr int compute_major_min = 8;

struct device_report {
  bool cuda_built = false;   ///< whether this build has the CUDA backend, or a test names a module
  bool cuda_usable = false;  ///< whether at least one device is new enough
  /// Not usable because the driver, the device or the module's file is faulty or too old, or because a module is
  /// missing although there is a driver.
  bool cuda_refused = false;
  std::string reason;  ///< why CUDA is not usable; empty if it is
  std::vector<cuda_device> devices;

  std::string cpu_name;
  std::size_t cpu_cores = 0;                  ///< cores that this process may run on; at least 1
  std::string cpu_target;                     ///< instruction set of the dispatched kernels
  std::vector<std::string> instruction_sets;  ///< see `instruction_sets`
};

/// Returns the instruction sets that both this build and this processor support, best first. Kernels use the first.
std::vector<std::string> instruction_sets();

/// Inspects the machine. Loads the CUDA probe and driver, so call it only when needed. Allocates no device memory and
/// creates no context. Thread: any.
device_report find_devices() noexcept;

}  // namespace troupe::kernels
