// A client of a run: asks its master for the status, to stop, or to continue with another number of trainers. It is not
// a member of the run.

#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.hpp"
#include "cluster/links/endpoint.hpp"
#include "cluster/nodes/run.hpp"
#include "protocol/status.hpp"

namespace troupe::nodes {

struct client_options {
  links::endpoint master;
  network_options network;
  /// Limit for connecting, asking and the answer together.
  std::chrono::milliseconds timeout{5000};
};

/// Returns the status of the run, in any phase. Faults: the master cannot be reached in time, refuses, or is another
/// build.
result<msg::run_status> ask_status(const client_options& options);

/// Stops the run after the current step, or before the first; returns when the master has accepted. Faults as above.
result<void> ask_stop(const client_options& options);

/// Has the run continue with `trainers` trainers after the current step; returns when the master has accepted. Faults
/// as above, or the reason why it cannot.
result<void> ask_scale(const client_options& options, std::uint32_t trainers);

}  // namespace troupe::nodes
