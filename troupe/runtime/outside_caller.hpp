// Calls from threads that run no task: an extra actor makes them, so that they may wait while all others work.

#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/messages.hpp"
#include "troupe/runtime/actor_executor.hpp"

namespace troupe::runtime {

/// Belongs to a trainer or client of the process, and ends the actor with it.
class outside_caller_handle {
 public:
  outside_caller_handle() = default;
  outside_caller_handle(const outside_caller_handle&) = delete;
  outside_caller_handle& operator=(const outside_caller_handle&) = delete;
  ~outside_caller_handle();

  /// Starts the actor, unless the process has one for this run. `number`, `trainer`: of the trainer that starts it; the
  /// trainer fails if a callback of those threads throws.
  void start(caf::actor_system& system, std::uint64_t run, std::uint32_t number,
             const std::vector<msg::parameter_server_actor>& servers,
             const std::vector<std::vector<msg::module_ref>>& planned, std::shared_ptr<actor_executor> trainer);

 private:
  caf::actor actor_;
};

}  // namespace troupe::runtime
