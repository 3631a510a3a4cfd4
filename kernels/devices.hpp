// What this machine computes with: its processor, and its CUDA devices if this build has the CUDA backend.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

/// One CUDA device; its number is its place in the report.
struct cuda_device {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0;  ///< compute capability, as in 9.0
  int compute_minor = 0;
};

/// The least compute capability that the CUDA backend is built for.
inline constexpr int compute_major_min = 8;

struct device_report {
  bool cuda_built = false;   ///< this build has the CUDA backend, or a test named one
  bool cuda_usable = false;  ///< and it finds a device that is new enough
  /// Not usable although there may be devices: the driver, the device or the backend's file is not as it should be.
  bool cuda_refused = false;
  std::string reason;  ///< why it is not usable; empty if it is
  std::vector<cuda_device> devices;

  std::string cpu_name;
  std::size_t cpu_cores = 0;                  ///< that this process may run on; 1 or more
  std::string cpu_target;                     ///< the instruction set that the kernels are dispatched to
  std::vector<std::string> instruction_sets;  ///< all that this build and this processor share, best first
};

/// The instruction sets that this build and this processor share, best first: kernels are dispatched to the first.
std::vector<std::string> instruction_sets();

/// Looks at the machine, which for CUDA means to load the probe and the driver: call it only where somebody asks.
/// Allocates no device memory and makes no context. May be called from any thread.
device_report find_devices() noexcept;

}  // namespace troupe::kernels
