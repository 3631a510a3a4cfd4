// Allreduce between devices: NCCL's communicators of one process. Never blocks; never throws away an error.

#pragma once

#include <array>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// What all processes of a communicator must have in common; made by one of them, carried by messages.
using communicator_id = std::array<std::byte, 128>;

/// This process's part of a group of devices that add up numbers. One thread at a time, `abort` too.
class communicator {
 public:
  virtual ~communicator() = default;

  enum class state : std::uint8_t { busy, ready, failed };

  /// Where the last thing that was asked for has got to: `busy` while connections are made or a launch is under way, on
  /// the host. To be asked again and again; nothing may be launched unless it is `ready`.
  virtual state poll() = 0;

  /// What failed, and what to try; empty unless `poll` says so.
  virtual std::string error() const = 0;

  /// Sums `count` floats over all devices, in place: buffers[i] and streams[i] are those of this process's device i.
  /// All devices of all processes launch the same collectives in the same order.
  virtual void all_reduce(std::span<float* const> buffers, std::size_t count, std::span<stream* const> streams) = 0;

  /// Ends what is under way, so that the streams pass; the communicator is of no use afterwards.
  virtual void abort() = 0;
};

}  // namespace troupe::kernels
