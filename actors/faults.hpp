// Where tests inject faults into a run to check what it reports. The program itself installs nothing here.

#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "protocol/server_messages.hpp"

namespace troupe::actors {

/// Thread: any actor's, several at a time.
class fault_injector {
 public:
  virtual ~fault_injector() = default;

  /// Server `rank` is about to apply the gradients of `step`.
  virtual void applying(std::uint32_t /*rank*/, std::uint64_t /*step*/) {}
  /// Returns whether a message sent to another process is lost on its way.
  virtual bool loses(const msg::header& /*head*/, std::uint16_t /*type*/) { return false; }
  /// Returns whether trainer `rank` skips this bucket's allreduce.
  virtual bool skips_reduce(std::uint32_t /*rank*/, std::uint64_t /*step*/, std::uint32_t /*bucket*/) { return false; }
  /// Trainer `rank` is about to cut its table gradients of `step` from these numbers.
  virtual void gradient(std::uint32_t /*rank*/, std::uint64_t /*step*/, std::span<float> /*grad*/) {}
  /// Trainer `rank` is about to send this gradient of `step`.
  virtual void signs(std::uint32_t /*rank*/, std::uint64_t /*step*/, troupe::msg::gradient& /*message*/) {}
};

/// Access by `faults` and `install_faults`.
inline std::atomic<fault_injector*> installed_faults = nullptr;

/// Null except in tests.
inline fault_injector* faults() { return installed_faults.load(std::memory_order_relaxed); }

/// Requires: no run has begun, and `what` outlives the last one.
inline void install_faults(fault_injector* what) { installed_faults.store(what); }

}  // namespace troupe::actors
