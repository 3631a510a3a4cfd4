// Somebody who is no part of a run and speaks to its master: asks how the run is, or has it stop.

#pragma once

#include <chrono>

#include "base/result.hpp"
#include "cluster/run.hpp"
#include "links/endpoint.hpp"
#include "protocol/status.hpp"

namespace troupe::cluster {

struct client_options {
  links::endpoint master;
  network_options network;
  /// For all of it: connecting, asking, the answer.
  std::chrono::milliseconds timeout{5000};
};

/// How the run is, in any of its phases. Faults: the master cannot be reached in time, refuses, or is of another build.
result<msg::run_status> ask_status(const client_options& options);

/// Has the run end after the step under way, or before its first; returns when the master has taken that. Faults as
/// above.
result<void> ask_stop(const client_options& options);

}  // namespace troupe::cluster
