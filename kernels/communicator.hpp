// Allreduce between devices by NCCL: the communicators of one process. No call blocks, and no error is lost.

#pragma once

#include <array>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// Identity of a communicator. One process makes it and sends it to the others in messages.
using communicator_id = std::array<std::byte, 128>;

/// This process's ranks of a group of devices that sum numbers. Thread: one at a time, for `abort` too.
class communicator {
 public:
  virtual ~communicator() = default;

  enum class state : std::uint8_t { busy, ready, failed };

  /// Returns the state of the last call: `busy` while connections are being made or the host is still launching a
  /// collective, `failed` after an error. Poll it: a collective may be launched only when it is `ready`.
  virtual state poll() = 0;

  /// Returns what failed and what to try; empty unless `poll` returned `failed`.
  virtual std::string error() const = 0;

  /// Sums `count` floats over all devices in place; buffers[i] and streams[i] belong to this process's device i.
  /// Requires: all devices of all processes launch the same collectives in the same order.
  virtual void all_reduce(std::span<float* const> buffers, std::size_t count, std::span<stream* const> streams) = 0;

  /// Aborts running collectives, so that their streams continue. Only the destructor may be called afterwards.
  virtual void abort() = 0;
};

}  // namespace troupe::kernels
