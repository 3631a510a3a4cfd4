// Where tests inject faults into a run to check what it reports. The program itself installs nothing here.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocol/server_messages.hpp"

namespace troupe::actors {

/// Thread: any actor's, several at a time.
class fault_injector {
 public:
  virtual ~fault_injector() = default;

  /// An actor is about to handle a message of this type.
  virtual void handles(std::string_view /*actor*/, std::uint16_t /*type*/) {}
  /// Server `rank` is about to apply the gradients of `step`.
  virtual void applying(std::uint32_t /*rank*/, std::uint64_t /*step*/) {}
  /// Returns whether a message sent to another process is lost on its way.
  virtual bool loses(const msg::header& /*head*/, std::uint16_t /*type*/) { return false; }
  /// Returns whether trainer `rank` skips this bucket's allreduce.
  virtual bool skips_reduce(std::uint32_t /*rank*/, std::uint64_t /*step*/, std::uint32_t /*bucket*/) { return false; }
  /// Trainer `rank` is about to cut its table gradients of `step` from these numbers.
  virtual void gradient(std::uint32_t /*rank*/, std::uint64_t /*step*/, std::span<float> /*grad*/) {}
  /// Trainer `rank` is about to sign and send this gradient of `step`.
  virtual void signs(std::uint32_t /*rank*/, std::uint64_t /*step*/, troupe::msg::gradient& /*message*/) {}
  /// A pipeline stage is about to pass a micro-batch.
  virtual void passing(std::uint32_t /*stage*/, bool /*forward*/) {}
  /// A piece of a table's shard is about to be written to a checkpoint.
  virtual void writing(std::size_t /*table*/, std::uint32_t /*shard*/) {}
  /// Returns the clock by which rank 0 times checkpoints.
  virtual std::chrono::steady_clock::time_point checkpoint_clock() { return std::chrono::steady_clock::now(); }
};

/// Used only by `faults` and `install_faults`.
inline std::atomic<fault_injector*> installed_faults = nullptr;

/// Null except in tests.
inline fault_injector* faults() { return installed_faults.load(std::memory_order_relaxed); }

/// Requires: no run has begun, and `what` outlives the last one.
inline void install_faults(fault_injector* what) { installed_faults.store(what); }

}  // namespace troupe::actors
