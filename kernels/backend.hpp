// The interface of the module `troupe_cuda`: CUDA devices and communicators between them. The module is loaded when a
// device is first used, because cuBLASLt alone needs 152 MiB.

#pragma once

#include <array>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// The identity of a communicator. One process makes it and sends it to the others in messages.
using communicator_id = std::array<std::byte, 128>;

/// This process's ranks in a group of devices that sum numbers. Thread: one at a time, also for `abort`.
class communicator {
 public:
  virtual ~communicator() = default;

  enum class state : std::uint8_t { busy, ready, failed };

  /// Returns the state of the last call: `busy` while connections are being made or the host is still launching a
  /// collective, `failed` after an error. Poll it: a collective may be launched only when it is `ready`.
  virtual state poll() = 0;

  /// Returns what failed and what to try; empty unless `poll` returned `failed`.
  virtual std::string error() const = 0;
  /// Returns the kind of that failure. Requires: `error` is not empty.
  virtual device_error::reason why() const = 0;

  /// Sums `count` floats over all devices in place; buffers[i] and streams[i] belong to this process's device i.
  /// Requires: all devices of all processes launch the same collectives in the same order.
  virtual void all_reduce(std::span<float* const> buffers, std::size_t count, std::span<stream* const> streams) = 0;

  /// Aborts running collectives, so that their streams continue. Only the destructor may be called afterwards.
  virtual void abort() = 0;
};

/// Opens devices and connects them. Lives until the process ends. Thread: any.
class backend {
 public:
  virtual ~backend() = default;

  /// Returns device `number`; opens it on the first call. Throws `device_error`.
  virtual device& open(int number) = 0;

  /// Returns a new identity for a communicator.
  virtual communicator_id make_communicator_id() = 0;

  /// Starts to connect this process's devices `mine`, which get the ranks first_rank, first_rank + 1, ... of `ranks`.
  /// Does not block. Requires: each device occurs once. Throws `device_error`.
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
