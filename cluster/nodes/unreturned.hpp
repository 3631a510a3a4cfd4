// Describes what keeps a process from ending after a stop request.

#pragma once

#include <caf/actor_system.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/stop_grace.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// A run as its master reports it.
struct reported_run {
  msg::run_status status;
  bool has_functions = false;  ///< its trainers run a program's function, not a job
};

/// Registers the run that this process leads, which `ask_leading_master` asks, while this object lives. Only one object
/// at a time has an effect.
class leading_run {
 public:
  /// Requires: both outlive it.
  leading_run(caf::actor_system& system, const msg::master_actor& boss, bool has_functions);
  ~leading_run();
  leading_run(const leading_run&) = delete;
  leading_run& operator=(const leading_run&) = delete;
};

/// Returns whether this process leads a run. Thread: any.
bool leads_run();

/// Returns the status of the run that this process leads; null: it leads none, or there is no answer within `timeout`.
/// Thread: any.
std::optional<reported_run> ask_leading_master(std::chrono::milliseconds timeout);

/// Describes what has not returned, first the code for which other actors wait: code of this process that is open in
/// both `before` and `now`, and actors of other processes. Empty: nothing is known.
std::string unreturned_functions_text(const std::vector<open_code>& before, const std::vector<open_code>& now,
                                      const std::optional<reported_run>& run);

}  // namespace troupe::nodes
